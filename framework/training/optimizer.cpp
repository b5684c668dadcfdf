#include "framework/training/optimizer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>

#include "framework/device/trace_range.h"

namespace packtrain {
namespace {

constexpr std::int64_t kNumValues = 4;  // loss, norm, not applied, stop requested; then details

}  // namespace

StepOutcome::StepOutcome(Device& device, std::int64_t num_details)
    : memory_(device.allocate_host((kNumValues + num_details) * sizeof(float))),
      host_(at::from_blob(memory_.data, {kNumValues + num_details}, at::kFloat)),
      arrived_(device.make_event()) {}

StepOutcome::Values StepOutcome::read() {
  arrived_->synchronize();
  const float* values = host_.const_data_ptr<float>();
  return {values[0], values[1], values[2] == 0.0F, values[3] != 0.0F,
          std::vector<double>(values + kNumValues, values + host_.numel())};
}

Optimizer::Optimizer(ShardedModel& model, const OptimizerSection& options, std::uint64_t seed)
    : model_(model), options_(options), seed_(seed) {
  for (const OptimizerRange& range : model.optimizer_ranges()) {
    ranges_.push_back({range.begin, range.numel, range.decay, range.first_element});
  }
}

void Optimizer::step(const at::Tensor& loss, double learning_rate, std::int64_t number,
                     bool stop_requested, StepOutcome& outcome, const at::Tensor& details) {
  model_.compute().run([&](StreamHandle stream) {
    const at::NoGradGuard no_grad;
    const TraceRange range("optimizer");
    const at::Tensor sums =
        step_sums(squared_norm_partials(model_.gradient()), loss, stop_requested, details);
    model_.reducer().all_reduce(sums.data_ptr(), sums.numel(), DataType::kFloat32, ReduceOp::kSum,
                                stream);
    const StepScalars scalars = step_scalars(sums, options_.max_grad_norm);
    update(learning_rate, number, scalars);
    outcome.host_.copy_(scalars.outcome, /*non_blocking=*/true);
  });
  model_.compute().record(*outcome.arrived_);
}

void Optimizer::update(double learning_rate, std::int64_t number, const StepScalars& scalars) {
  const FlatState& state = model_.state();
  AdamWOptions options;
  options.learning_rate = learning_rate;
  options.beta1 = options_.betas[0];
  options.beta2 = options_.betas[1];
  options.epsilon = options_.epsilon;
  options.weight_decay = options_.weight_decay;
  options.step = number;
  options.seed = seed_;
  const TraceRange range("AdamW");
  adamw({state.master, model_.gradient(), state.exp_avg, state.exp_avg_sq, state.weight}, ranges_,
        options, scalars.clip_factor, scalars.skip);
}

}  // namespace packtrain
