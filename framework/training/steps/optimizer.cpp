#include "framework/training/steps/optimizer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>

#include <cmath>

#include "framework/device/trace_range.h"

namespace packtrain {
namespace {

constexpr std::int64_t kNumValues = 4;  // loss, norm, not applied, requests; then details

// Requests are one number: how many ranks want to stop, this much more to save, and this much for
// each rank out of memory. Exact in float32 for up to 2047 ranks.
constexpr float kSaveShare = 0.5F;
constexpr float kOutOfMemoryShare = 1.0F / 4096;

double request_number(const StepRequests& requests) {
  return (requests.stop ? 1.0 : 0.0) + (requests.save ? kSaveShare : 0.0) +
         (requests.out_of_memory ? kOutOfMemoryShare : 0.0);
}

}  // namespace

StepOutcome::StepOutcome(Device& device, std::int64_t num_details)
    : memory_(device.allocate_host((kNumValues + num_details) * sizeof(float))),
      host_(at::from_blob(memory_.data, {kNumValues + num_details}, at::kFloat)),
      arrived_(device.make_event()) {}

StepOutcome::Values StepOutcome::read() {
  arrived_->synchronize();
  const float* values = host_.const_data_ptr<float>();
  const float share = values[3] - std::floor(values[3]);
  const bool save = share >= kSaveShare;
  const float out_of_memory = (save ? share - kSaveShare : share) / kOutOfMemoryShare;
  return {values[0],
          values[1],
          values[2] == 0.0F,
          {.stop = values[3] >= 1.0F, .save = save, .out_of_memory = out_of_memory > 0},
          std::lround(out_of_memory),
          std::vector<double>(values + kNumValues, values + host_.numel())};
}

// A unit is a launch of its own where it is gathered, so that the next step's first gathers start
// while the others are updated.
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
    if (model_.num_replicas() > 1) partials.div_(model_.num_replicas());  // each has the whole norm
    const at::Tensor sums = step_sums(partials, loss, request_number(requests), details);
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
