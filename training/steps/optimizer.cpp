#include "training/steps/optimizer.h"

#include <ATen/core/grad_mode.h>

#include "framework/device/trace_range.h"

namespace packtrain {

// Each gathered unit is updated by its own launch. The next step's first gathers can then start
// while other units are updated.
Optimizer::Optimizer(ShardedModel& model, const OptimizerSection& options, std::uint64_t seed)
    : model_(model), options_(options), seed_(seed) {
  const bool by_unit = model.slots().gathers();
  for (const OptimizerRange& range : model.parameters().optimizer_ranges()) {
    if (parts_.empty() || (by_unit && parts_.back().unit != range.unit)) {
      parts_.push_back({.unit = range.unit, .begin = range.begin});
    }
    Part& part = parts_.back();
    part.ranges.push_back(
        {range.begin - part.begin, range.numel, range.group, range.first_element});
    part.numel += range.numel;
  }
}

void Optimizer::step(const at::Tensor& loss, double learning_rate, std::int64_t number,
                     const StepRequests& requests, StepOutcome& outcome, const at::Tensor& details,
                     const RefusalBounds& bounds) {
  StepScalars scalars;
  model_.compute().run([&](StreamHandle) {
    const at::NoGradGuard no_grad;
    const TraceRange range("optimizer");
    at::Tensor partials = model_.squared_norm_partials();
    const int num_replicas = model_.ranks().mesh().replicate.size;
    if (num_replicas > 1) partials.div_(num_replicas);  // each replica has the whole norm
    const at::Tensor sums = step_sums(partials, loss, requests.counts(), details);
    model_.ranks().sum(sums, model_.compute());
    scalars = step_scalars(sums, options_.max_grad_norm, bounds);
    update(learning_rate, number, scalars);
  });
  outcome.receive(scalars.outcome, model_.compute());
}

void Optimizer::update(double learning_rate, std::int64_t number, const StepScalars& scalars) {
  AdamWOptions options;
  options.learning_rate = learning_rate;
  options.beta1 = options_.betas[0];
  options.beta2 = options_.betas[1];
  options.epsilon = options_.epsilon;
  options.weight_decay = {options_.weight_decay, 0};
  options.step = number;
  options.seed = seed_;
  const FlatState& state = model_.parameters().state();
  const at::Tensor& first = find_tensor(state.optimizer, kExpAvg);
  const at::Tensor& second = find_tensor(state.optimizer, kExpAvgSq);
  for (const Part& part : parts_) {
    const bool is_unit = model_.slots().gathers();
    const TraceRange range(is_unit ? "AdamW " + model_.units().units[part.unit].name : "AdamW");
    const auto part_of = [&](const at::Tensor& flat) {
      return flat.narrow(0, part.begin, part.numel);
    };
    adamw({part_of(state.master), part_of(model_.gradient()), part_of(first), part_of(second),
           part_of(state.weight)},
          part.ranges, options, scalars.clip_factor, scalars.skip);
    if (is_unit) model_.parameters().unit_updated(part.unit);
  }
}

}  // namespace packtrain
