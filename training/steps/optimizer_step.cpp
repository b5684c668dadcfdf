#include "training/steps/optimizer_step.h"

#include <ATen/core/grad_mode.h>

#include <string>
#include <utility>

#include "framework/device/trace_range.h"

namespace packtrain {

OptimizerStep::OptimizerStep(ShardedModel& model, const OptimizerSection& options,
                             std::uint64_t seed)
    : model_(model),
      optimizer_(make_optimizer(options, seed)),
      max_grad_norm_(options.max_grad_norm) {
  for (const OptimizerRange& range : model.parameters().optimizer_ranges()) add(range);
  for (Part& part : parts_) make_views(part);
}

// Each gathered unit is updated by its own launch. The next step's first gathers can then start
// while other units are updated.
bool OptimizerStep::extends(const Part& part, const OptimizerRange& range) const {
  const bool same_unit = part.unit == range.unit || !model_.slots().gathers();
  return same_unit && part.weight_buffer == range.weight_buffer &&
         part.begin + part.numel == range.begin;
}

void OptimizerStep::add(const OptimizerRange& range) {
  if (parts_.empty() || !extends(parts_.back(), range)) {
    parts_.push_back({.unit = range.unit,
                      .begin = range.begin,
                      .weight_buffer = range.weight_buffer,
                      .weight_begin = range.weight_begin});
  }
  Part& part = parts_.back();
  part.ranges.push_back({range.begin - part.begin, range.numel, range.group, range.first_element});
  part.numel += range.numel;
}

void OptimizerStep::make_views(Part& part) const {
  const FlatState& state = model_.parameters().state();
  part.tensors.master = state.master.narrow(0, part.begin, part.numel);
  part.tensors.weight =
      state.weights.at(part.weight_buffer).narrow(0, part.weight_begin, part.numel);
  for (OptimizerTensor& tensor :
       narrow_state(optimizer_->state(), state.optimizer, part.begin, part.numel)) {
    part.tensors.state.push_back(std::move(tensor.values));
  }
}

void OptimizerStep::run(const at::Tensor& loss, double learning_rate, std::int64_t number,
                        const StepRequests& requests, StepOutcome& outcome,
                        const at::Tensor& details, const RefusalBounds& bounds) {
  StepScalars scalars;
  model_.compute().run([&](StreamHandle) {
    const at::NoGradGuard no_grad;
    const TraceRange range("optimizer");
    at::Tensor partials = model_.squared_norm_partials();
    const int num_replicas = model_.ranks().mesh().replicate.size;
    if (num_replicas > 1) partials.div_(num_replicas);  // each replica has the whole norm
    const at::Tensor sums = step_sums(partials, loss, requests.counts(), details);
    model_.ranks().sum(sums, model_.compute());
    scalars = step_scalars(sums, max_grad_norm_, bounds);
    update(learning_rate, number, scalars);
  });
  outcome.receive(scalars.outcome, model_.compute());
}

void OptimizerStep::update(double learning_rate, std::int64_t number, const StepScalars& scalars) {
  const UpdateOptions options{learning_rate, number, scalars.clip_factor, scalars.skip};
  const bool by_unit = model_.slots().gathers();
  const std::string name = optimizer_->name();
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    Part& part = parts_[p];
    const TraceRange range(by_unit ? name + " " + model_.units().units[part.unit].name : name);
    part.tensors.grad = model_.gradient().narrow(0, part.begin, part.numel);
    optimizer_->update(part.tensors, part.ranges, options);
    part.tensors.grad.reset();  // the model may replace the gradient's memory
    const bool ends_unit = p + 1 == parts_.size() || parts_[p + 1].unit != part.unit;
    if (by_unit && ends_unit) model_.parameters().unit_updated(part.unit);
  }
}

}  // namespace packtrain
