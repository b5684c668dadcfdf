#include "models/head_block.h"

#include <ATen/core/grad_mode.h>

#include <utility>

#include "models/batch.h"
#include "models/ops/linear/linear.h"
#include "models/ops/linear_cross_entropy/linear_cross_entropy.h"
#include "models/ops/rms_norm/rms_norm.h"

namespace packtrain {
namespace {

struct HeadTape : Tape {
  at::Tensor grad_x;
};

}  // namespace

HeadBlock::HeadBlock(std::vector<ParameterSpec> parameters, double norm_epsilon)
    : parameters_(std::move(parameters)), norm_epsilon_(norm_epsilon) {}

BlockOutput HeadBlock::forward(std::span<const Parameter> parameters, const DeviceBatch& batch,
                               const at::Tensor& x, bool training) const {
  const at::NoGradGuard no_grad;
  const Parameter& norm = parameters[0];
  const Parameter& head = parameters[1];
  const RmsNormOutput normed = rms_norm_forward(x, norm, RmsNormOptions{norm_epsilon_});
  const CrossEntropyTargets targets{batch.loss_labels, batch.loss_weight, batch.row_losses};
  const CrossEntropyOutput output = linear_cross_entropy(normed.y, head, targets, training);
  if (!training) {
    return {output.loss, nullptr};
  }
  auto tape = std::make_unique<HeadTape>();
  tape->grad_x =
      rms_norm_backward(output.grad_x, x, normed.inverse_rms, norm, RmsNormOptions{norm_epsilon_});
  return {output.loss, std::move(tape)};
}

at::Tensor HeadBlock::backward(std::span<const Parameter> /*parameters*/,
                               const DeviceBatch& /*batch*/, std::unique_ptr<Tape> tape,
                               const at::Tensor& /*grad_output*/) const {
  return std::move(static_cast<HeadTape&>(*tape).grad_x);
}

at::Tensor HeadBlock::logits(std::span<const Parameter> parameters, const at::Tensor& x) const {
  const at::NoGradGuard no_grad;
  const RmsNormOutput normed = rms_norm_forward(x, parameters[0], RmsNormOptions{norm_epsilon_});
  return linear_forward(normed.y, parameters[1], nullptr);
}

}  // namespace packtrain
