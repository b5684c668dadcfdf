#include "training/steps/optimizer_step.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <string>
#include <utility>

#include "framework/device/trace_range.h"

namespace packtrain {

OptimizerStep::OptimizerStep(ShardedModel& model, std::span<const OptimizerSection> options,
                             std::uint64_t seed)
    : model_(model) {
  for (const OptimizerSection& own : options) {
    optimized_.push_back({make_optimizer(own, seed), own.max_grad_norm});
  }
  for (const OptimizerRange& range : model.parameters().optimizer_ranges()) add(range);
  for (Part& part : parts_) make_views(part);
}

// Each gathered unit is updated by its own launch. The next step's first gathers can then start
// while other units are updated.
bool OptimizerStep::extends(const Part& part, const OptimizerRange& range) const {
  const bool same_unit = part.unit == range.unit || !model_.slots().gathers();
  return same_unit && part.adapter == range.adapter && part.weight_buffer == range.weight_buffer &&
         part.begin + part.numel == range.begin;
}

void OptimizerStep::add(const OptimizerRange& range) {
  if (parts_.empty() || !extends(parts_.back(), range)) {
    parts_.push_back({.unit = range.unit,
                      .adapter = range.adapter,
                      .begin = range.begin,
                      .weight_buffer = range.weight_buffer,
                      .weight_begin = range.weight_begin});
  }
  Part& part = parts_.back();
  part.ranges.push_back(
      {range.begin - part.begin, range.numel, range.group, range.first_element, range.scale});
  part.numel += range.numel;
}

void OptimizerStep::make_views(Part& part) const {
  const FlatState& state = model_.parameters().state();
  part.tensors.master = state.master.narrow(0, part.begin, part.numel);
  part.tensors.weight =
      state.weights.at(part.weight_buffer).narrow(0, part.weight_begin, part.numel);
  const WeightScales& scales = model_.parameters().scales();
  if (!scales.empty()) part.tensors.amax = scales.amax();
  for (OptimizerTensor& tensor : narrow_state(optimized_.at(part.adapter).optimizer->state(),
                                              state.optimizer, part.begin, part.numel)) {
    part.tensors.state.push_back(std::move(tensor.values));
  }
}

// Float32 [adapters], of this rank's shard.
at::Tensor OptimizerStep::squares_by_adapter() {
  model_.squared_norm_partials();  // clears what train() has begun to sum
  std::vector<std::vector<at::Tensor>> partials(optimized_.size());
  for (const Part& part : parts_) {
    partials[part.adapter].push_back(
        squared_norm_partials(model_.gradient().narrow(0, part.begin, part.numel)));
  }
  const auto options = model_.gradient().options().dtype(at::kFloat);
  std::vector<at::Tensor> sums;
  for (const std::vector<at::Tensor>& own : partials) {
    sums.push_back(own.empty() ? at::zeros({}, options) : at::cat(own).sum());
  }
  return at::stack(sums);
}

at::Tensor OptimizerStep::sum_up(const at::Tensor& loss, std::span<const UpdateStep> updates,
                                 const StepRequests& requests, const at::Tensor& details,
                                 std::vector<StepScalars>& scalars) {
  at::Tensor partials = model_.squared_norm_partials();
  const int num_replicas = model_.ranks().mesh().replicate.size;
  if (num_replicas > 1) partials.div_(num_replicas);  // each replica has the whole norm
  const at::Tensor sums = step_sums(partials, loss, requests.counts(), details);
  model_.ranks().sum(sums, model_.compute());
  scalars.push_back(step_scalars(sums, optimized_.front().max_grad_norm, updates.front().bounds));
  return scalars.front().outcome;
}

// One all-reduce has the sums of all adapters: losses and squares are details of the step.
at::Tensor OptimizerStep::sum_up_adapters(const at::Tensor& loss,
                                          std::span<const UpdateStep> updates,
                                          const StepRequests& requests, const at::Tensor& details,
                                          std::vector<StepScalars>& scalars) {
  const auto num_adapters = std::ssize(optimized_);
  at::Tensor squares = squares_by_adapter();
  squares.div_(model_.ranks().mesh().replicate.size);
  const at::Tensor sums = step_sums(squares, loss, requests.counts(), at::cat({details, squares}));
  model_.ranks().sum(sums, model_.compute());
  const at::Tensor losses = sums.narrow(0, kNumStepSums, num_adapters);
  const at::Tensor all_squares = sums.slice(0, -num_adapters);
  const at::Tensor outcome = step_scalars(sums, 0).outcome;
  std::vector<at::Tensor> outcomes = {outcome.slice(0, 0, -num_adapters)};
  for (std::int64_t a = 0; a < num_adapters; ++a) {
    const at::Tensor own = at::cat(
        {losses.narrow(0, a, 1), all_squares.narrow(0, a, 1), sums.slice(0, 2, kNumStepSums)});
    scalars.push_back(step_scalars(own, optimized_[a].max_grad_norm, updates[a].bounds));
    outcomes.push_back(scalars.back().outcome);
  }
  return at::cat(outcomes);
}

void OptimizerStep::run(const at::Tensor& loss, std::span<const UpdateStep> updates,
                        std::int64_t number, const StepRequests& requests, StepOutcome& outcome,
                        const at::Tensor& details) {
  at::Tensor report;
  model_.compute().run([&](StreamHandle) {
    const at::NoGradGuard no_grad;
    const TraceRange range("optimizer");
    std::vector<StepScalars> scalars;
    report = optimized_.size() == 1 ? sum_up(loss, updates, requests, details, scalars)
                                    : sum_up_adapters(loss, updates, requests, details, scalars);
    update(updates, number, scalars);
  });
  outcome.receive(report, model_.compute());
}

void OptimizerStep::update(std::span<const UpdateStep> updates, std::int64_t number,
                           std::span<const StepScalars> scalars) {
  const bool by_unit = model_.slots().gathers();
  model_.parameters().begin_update(scalars.front().skip);
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    Part& part = parts_[p];
    const auto adapter = static_cast<std::size_t>(part.adapter);
    const Optimizer& optimizer = *optimized_[adapter].optimizer;
    const std::string name = optimizer.name();
    const TraceRange range(by_unit ? name + " " + model_.units().units[part.unit].name : name);
    part.tensors.grad = model_.gradient().narrow(0, part.begin, part.numel);
    optimizer.update(part.tensors, part.ranges,
                     {updates[adapter].learning_rate, number, scalars[adapter].clip_factor,
                      scalars[adapter].skip});
    part.tensors.grad.reset();  // the model may replace the gradient's memory
    const bool ends_unit = p + 1 == parts_.size() || parts_[p + 1].unit != part.unit;
    if (by_unit && ends_unit) model_.parameters().unit_updated(part.unit);
  }
  model_.parameters().end_update();
}

}  // namespace packtrain
