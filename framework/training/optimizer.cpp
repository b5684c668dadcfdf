#include "framework/training/optimizer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/reciprocal.h>
#include <ATen/ops/stack.h>

namespace packtrain {
namespace {

constexpr std::int64_t kNumValues = 4;  // loss, norm, not applied, stop requested; then details

at::Tensor with_details(const at::Tensor& values, const at::Tensor& details) {
  return details.defined() ? at::cat({values, details}) : values;
}

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
    const at::Tensor& grad = model_.state().grad;
    const at::Tensor norm_of_shard = at::linalg_vector_norm(grad);
    const at::Tensor sums = with_details(
        at::stack({loss.to(at::kFloat), norm_of_shard.mul(norm_of_shard),
                   at::empty({}, norm_of_shard.options()).fill_(stop_requested ? 1.0 : 0.0)}),
        details);
    model_.reducer().all_reduce(sums.data_ptr(), sums.numel(), DataType::kFloat32, ReduceOp::kSum,
                                stream);
    const at::Tensor norm = sums.select(0, 1).sqrt();
    const at::Tensor skip = at::isfinite(norm.add(sums.select(0, 0))).logical_not();
    at::Tensor clip_factor = at::ones({}, norm.options());
    if (options_.max_grad_norm > 0) {
      // The small term is PyTorch's clip_grad_norm_'s: a zero norm must not divide by zero.
      clip_factor = at::reciprocal(norm.add(1e-6)).mul(options_.max_grad_norm).clamp_max(1.0);
    }
    update(learning_rate, number, clip_factor, skip.to(at::kByte));
    const at::Tensor values =
        at::stack({sums.select(0, 0), norm, skip.to(at::kFloat), sums.select(0, 2)});
    const at::Tensor summed_details =
        details.defined() ? sums.narrow(0, 3, details.numel()) : details;
    outcome.host_.copy_(with_details(values, summed_details), /*non_blocking=*/true);
  });
  model_.compute().record(*outcome.arrived_);
}

void Optimizer::update(double learning_rate, std::int64_t number, const at::Tensor& clip_factor,
                       const at::Tensor& skip) {
  const FlatState& state = model_.state();
  AdamWOptions options;
  options.learning_rate = learning_rate;
  options.beta1 = options_.betas[0];
  options.beta2 = options_.betas[1];
  options.epsilon = options_.epsilon;
  options.weight_decay = options_.weight_decay;
  options.step = number;
  options.seed = seed_;
  adamw({state.master, state.grad, state.exp_avg, state.exp_avg_sq, state.weight}, ranges_, options,
        clip_factor, skip);
}

}  // namespace packtrain
