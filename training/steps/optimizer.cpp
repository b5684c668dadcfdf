#include "training/steps/optimizer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>

#include <cmath>

#include "framework/device/trace_range.h"

namespace packtrain {
namespace {

constexpr std::int64_t kNumValues = 6;  // loss, norm, not applied, requests; then details

RequestFlags flags(const StepRequests& requests) {
  const auto flag = [](bool asked) { return asked ? 1.0F : 0.0F; };
  return {flag(requests.stop), flag(requests.save), flag(requests.out_of_memory)};
}

}  // namespace

StepOutcome::StepOutcome(Device& device, std::int64_t num_details)
    : memory_(device.allocate_host((kNumValues + num_details) * sizeof(float))),
      host_(at::from_blob(memory_.data, {kNumValues + num_details}, at::kFloat)),
      arrived_(device.make_event()) {}

StepOutcome::Values StepOutcome::read() {
  arrived_->synchronize();
  const float* values = host_.const_data_ptr<float>();
  return {values[0],
          values[1],
          values[2] == 0.0F,
          {.stop = values[3] > 0, .save = values[4] > 0, .out_of_memory = values[5] > 0},
          std::lround(values[5]),
          std::vector<double>(values + kNumValues, values + host_.numel())};
}

// Each gathered unit is updated by its own launch. The next step's first gathers can then start
// while other units are updated.
Optimizer::Optimizer(ShardedModel& model, const OptimizerSection& options, std::uint64_t seed)
    : model_(model), options_(options), seed_(seed) {
  const bool by_unit = model.slots().gathers();
  for (const OptimizerRange& range : model.optimizer_ranges()) {
    if (parts_.empty() || (by_unit && parts_.back().unit != range.unit)) {
      parts_.push_back({.unit = range.unit, .begin = range.begin});
    }
    Part& part = parts_.back();
    part.ranges.push_back(
        {range.begin - part.begin, range.numel, range.decay, range.first_element});
    part.numel += range.numel;
  }
}

void Optimizer::step(const at::Tensor& loss, double learning_rate, std::int64_t number,
                     const StepRequests& requests, StepOutcome& outcome, const at::Tensor& details,
                     const RefusalBounds& bounds) {
  model_.compute().run([&](StreamHandle) {
    const at::NoGradGuard no_grad;
    const TraceRange range("optimizer");
    at::Tensor partials = model_.squared_norm_partials();
    if (model_.num_replicas() > 1)
      partials.div_(model_.num_replicas());  // each replica has the whole norm
    const at::Tensor sums = step_sums(partials, loss, flags(requests), details);
    model_.sum_over_ranks(sums);
    const StepScalars scalars = step_scalars(sums, options_.max_grad_norm, bounds);
    update(learning_rate, number, scalars);
    outcome.host_.copy_(scalars.outcome, /*non_blocking=*/true);
  });
  model_.compute().record(*outcome.arrived_);
}

void Optimizer::update(double learning_rate, std::int64_t number, const StepScalars& scalars) {
  AdamWOptions options;
  options.learning_rate = learning_rate;
  options.beta1 = options_.betas[0];
  options.beta2 = options_.betas[1];
  options.epsilon = options_.epsilon;
  options.weight_decay = options_.weight_decay;
  options.step = number;
  options.seed = seed_;
  const FlatState& state = model_.state();
  for (const Part& part : parts_) {
    const bool is_unit = model_.slots().gathers();
    const TraceRange range(is_unit ? "AdamW " + model_.units().units[part.unit].name : "AdamW");
    const auto part_of = [&](const at::Tensor& flat) {
      return flat.narrow(0, part.begin, part.numel);
    };
    adamw({part_of(state.master), part_of(model_.gradient()), part_of(state.exp_avg),
           part_of(state.exp_avg_sq), part_of(state.weight)},
          part.ranges, options, scalars.clip_factor, scalars.skip);
    if (is_unit) model_.unit_updated(part.unit);
  }
}

}  // namespace packtrain
