#include "models/autograd_block.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <utility>

#include "models/batch.h"

namespace packtrain {
namespace {

struct AutogradTape : Tape {
  at::Tensor x;                       // the segment's leaf
  at::Tensor y;                       // its end; undefined when recomputed
  std::vector<Parameter> parameters;  // what the operators of the segment refer to
  DeviceBatch batch;                  // likewise
};

}  // namespace

AutogradBlock::AutogradBlock(std::string name, std::vector<ParameterSpec> parameters,
                             bool recompute)
    : name_(std::move(name)), parameters_(std::move(parameters)), recompute_(recompute) {}

BlockOutput AutogradBlock::forward(std::span<const Parameter> parameters, const DeviceBatch& batch,
                                   const at::Tensor& x, bool training) const {
  if (!training) {
    const at::NoGradGuard no_grad;
    return {compute(parameters, batch, x), nullptr};
  }
  auto tape = std::make_unique<AutogradTape>();
  tape->x = x.detach();
  if (recompute_) {
    const at::NoGradGuard no_grad;
    return {compute(parameters, batch, x), std::move(tape)};
  }
  tape->parameters.assign(parameters.begin(), parameters.end());
  tape->batch = batch;
  const at::AutoGradMode record(true);
  tape->x.set_requires_grad(true);
  tape->y = compute(tape->parameters, tape->batch, tape->x);
  return {tape->y.detach(), std::move(tape)};
}

at::Tensor AutogradBlock::backward(std::span<const Parameter> parameters, const DeviceBatch& batch,
                                   std::unique_ptr<Tape> tape,
                                   const at::Tensor& grad_output) const {
  auto& kept = static_cast<AutogradTape&>(*tape);
  kept.parameters.assign(parameters.begin(), parameters.end());  // gradients live elsewhere now
  if (recompute_) {
    kept.batch = batch;
    const at::AutoGradMode record(true);
    kept.x.set_requires_grad(true);
    kept.y = compute(kept.parameters, kept.batch, kept.x);
  }
  return torch::autograd::grad({kept.y}, {kept.x}, {grad_output}).at(0);
}

}  // namespace packtrain
