#include "models/block/recorded_block.h"

#include <ATen/core/grad_mode.h>

#include <utility>

#include "framework/device/trace_range.h"

namespace packtrain {
namespace {

struct BlockTape : Tape {
  BlockTape(std::span<const Parameter> parameters, const BlockContext& context)
      : operators(parameters, context) {}
  at::Tensor take_input() override { return operators.take_input(); }
  void return_input(at::Tensor x) override { operators.return_input(std::move(x)); }

  ExecutingTape operators;
  Value output;
};

at::Tensor run_backward(std::span<const Parameter> parameters, Tape& tape,
                        const at::Tensor& grad_output) {
  const at::NoGradGuard no_grad;
  auto& kept = static_cast<BlockTape&>(tape);
  return kept.operators.backward(kept.output, grad_output, parameters);
}

}  // namespace

RecordedBlock::RecordedBlock(std::string name, std::vector<ParameterSpec> parameters,
                             RecomputeByRows policies)
    : name_(std::move(name)), parameters_(std::move(parameters)), policies_(std::move(policies)) {}

const RecomputePolicy& RecordedBlock::policy_of(const BlockContext& context) const {
  if (context.options.recomputes_as_largest) return policies_.largest;
  return policies_.of(context.batch.num_rows());
}

BlockOutput RecordedBlock::forward(std::span<const Parameter> parameters,
                                   const BlockContext& context, const at::Tensor& x) const {
  const at::NoGradGuard no_grad;
  auto tape = std::make_unique<BlockTape>(parameters, context);
  tape->output = record(tape->operators, tape->operators.input(x));
  const bool trains = context.mode == BlockMode::kTrain;
  at::Tensor y = tape->operators.forward(tape->output, trains ? &policy_of(context) : nullptr);
  if (!trains) return {std::move(y), nullptr};
  return {std::move(y), std::move(tape)};
}

at::Tensor RecordedBlock::backward(std::span<const Parameter> parameters,
                                   const BlockContext& /*context*/, std::unique_ptr<Tape> tape,
                                   const at::Tensor& grad_output) const {
  return run_backward(parameters, *tape, grad_output);
}

at::Tensor RecordedBlock::backward_input(std::span<const Parameter> parameters, Tape& tape,
                                         const at::Tensor& grad_output) const {
  static_cast<BlockTape&>(tape).operators.weight_grads().defer();
  return run_backward(parameters, tape, grad_output);
}

void RecordedBlock::backward_weight(Tape& tape) const {
  const at::NoGradGuard no_grad;
  const TraceRange range("deferred weight gradients");
  static_cast<BlockTape&>(tape).operators.weight_grads().flush();
}

std::vector<SavedActivation> saved_activations(const Tape& tape) {
  return static_cast<const BlockTape&>(tape).operators.saved();
}

}  // namespace packtrain
