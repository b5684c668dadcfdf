#include "training/steps/optimizer_step.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <string>
#include <utility>

#include "framework/device/trace_range.h"
#include "parallel/sharding/state_slot_size.h"
#include "training/optimizers/muon.h"
#include "training/optimizers/newton_schulz.h"
#include "training/optimizers/parameter_groups.h"

namespace packtrain {
namespace {

// Returns the bytes of a state that is in host memory.
std::int64_t host_state_bytes(const FlatState& state) {
  std::size_t bytes = state.master.defined() ? state.master.nbytes() : 0;
  for (const OptimizerTensor& tensor : state.optimizer) bytes += tensor.values.nbytes();
  return static_cast<std::int64_t>(bytes);
}

}  // namespace

OptimizerStep::OptimizerStep(ShardedModel& model, std::span<const OptimizerSection> options,
                             std::uint64_t seed, std::int64_t slot_bytes)
    : model_(model),
      slot_bytes_(
          std::min(slot_bytes, state_slot_bytes(host_state_bytes(model.parameters().state())))) {
  for (const OptimizerSection& own : options) {
    const ParameterGroups groups(own);
    Optimized& optimized = optimized_.emplace_back();
    optimized.max_grad_norm = own.max_grad_norm;
    for (int number = 0; number < groups.size(); ++number) {
      optimized.groups.push_back(
          {make_optimizer(groups.settings(number), seed), groups.rate_ratio(number)});
    }
  }
  for (const OptimizerRange& range : model.parameters().optimizer_ranges()) add(range);
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    parts_[p].ends_unit = p + 1 == parts_.size() || parts_[p + 1].unit != parts_[p].unit;
    make_views(parts_[p]);
  }
  if (model.parameters().state().is_on_host) make_stream();
  make_exchange();
  make_factored();
  count_estimated();
}

bool OptimizerStep::is_orthogonalised(const ParameterSpec& parameter) const {
  const auto number = static_cast<std::size_t>(parameter.optimizer);
  return optimized_.front().groups.at(number).optimizer->orthogonalises();
}

// All ranks make it, also those that own no element of a matrix.
void OptimizerStep::make_exchange() {
  bool is_needed = false;
  for (const auto& [name, spec] : parameters_by_name(model_.units())) {
    is_needed = is_needed || (spec->trainable && is_orthogonalised(*spec));
  }
  if (!is_needed) return;
  const bool on_gpu = model_.parameters().state().device.is_cuda();
  matrices_ = model_.parameters().make_matrix_exchange(
      [this](const ParameterSpec& parameter) { return is_orthogonalised(parameter); },
      exchanged_type(on_gpu));
}

void OptimizerStep::make_factored() {
  auto factored = std::make_unique<FactoredMoments>(model_, [this](const ParameterSpec& parameter) {
    const auto number = static_cast<std::size_t>(parameter.optimizer);
    return optimized_.front().groups.at(number).optimizer->factored();
  });
  if (!factored->empty()) factored_ = std::move(factored);
}

// Each gathered unit is updated by its own launch. The next step's first gathers can then start
// while other units are updated.
bool OptimizerStep::extends(const Part& part, const OptimizerRange& range) const {
  const bool same_unit = part.unit == range.unit || !model_.slots().gathers();
  return same_unit && part.adapter == range.adapter && part.optimizer == range.optimizer &&
         part.weight_buffer == range.weight_buffer && part.begin + part.numel == range.begin &&
         part.numel + range.numel <= most_elements(part.adapter, part.optimizer);
}

void OptimizerStep::add(const OptimizerRange& range) {
  const std::int64_t most = most_elements(range.adapter, range.optimizer);
  if (range.numel > most) {
    OptimizerRange piece = range;
    for (std::int64_t begin = 0; begin < range.numel; begin += most) {
      piece.numel = std::min(most, range.numel - begin);
      piece.begin = range.begin + begin;
      piece.first_element = range.first_element + begin;
      piece.weight_begin = range.weight_begin + begin;
      add(piece);
    }
    return;
  }
  if (parts_.empty() || !extends(parts_.back(), range)) {
    parts_.push_back({.unit = range.unit,
                      .adapter = range.adapter,
                      .optimizer = range.optimizer,
                      .begin = range.begin,
                      .weight_buffer = range.weight_buffer,
                      .weight_begin = range.weight_begin});
  }
  Part& part = parts_.back();
  part.last_unit = range.unit;
  part.ranges.push_back(
      {range.begin - part.begin, range.numel, range.group, range.first_element, range.scale});
  part.numel += range.numel;
}

void OptimizerStep::make_views(Part& part) const {
  const FlatState& state = model_.parameters().state();
  part.tensors.master = model_.parameters().master({.begin = part.begin,
                                                    .numel = part.numel,
                                                    .weight_buffer = part.weight_buffer,
                                                    .weight_begin = part.weight_begin});
  part.tensors.weight =
      state.weights.at(part.weight_buffer).narrow(0, part.weight_begin, part.numel);
  const WeightScales& scales = model_.parameters().scales();
  if (!scales.empty()) part.tensors.amax = scales.amax();
  if (group_of(part).optimizer->factored() != nullptr) return;  // factored_ has the state
  const auto values = model_.parameters().optimizer_state(part.begin, part.numel);
  for (const OptimizerStateSpec& spec : group_of(part).optimizer->state()) {
    part.tensors.state.push_back(find_tensor(values, spec.name));
  }
  const bool is_weight =
      part.tensors.master.const_data_ptr() == part.tensors.weight.const_data_ptr();
  part.master_on_host = state.is_on_host && !is_weight;
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
                        const at::Tensor& details, bool before_hessian) {
  at::Tensor report;
  model_.compute().run([&](StreamHandle) {
    const at::NoGradGuard no_grad;
    const TraceRange range("optimizer");
    std::vector<StepScalars> scalars;
    report = optimized_.size() == 1 ? sum_up(loss, updates, requests, details, scalars)
                                    : sum_up_adapters(loss, updates, requests, details, scalars);
    num_unclipped_.reset();
    if (before_hessian) begin_counts(scalars.front().skip);
    if (before_update_) before_update_(report);
    update(updates, number, scalars);
  });
  outcome.receive(report, model_.compute());
}

void OptimizerStep::update(std::span<const UpdateStep> updates, std::int64_t number,
                           std::span<const StepScalars> scalars) {
  const bool by_unit = model_.slots().gathers();
  model_.parameters().begin_update(scalars.front().skip);
  if (matrices_ != nullptr) orthogonalise(updates, number, scalars);
  if (factored_ != nullptr) factor(updates, number, scalars);
  for_each_part(UpdatePass::kUpdate, [&](const Part& part, const ShardPart& tensors) {
    update_part(part, tensors, options_of(part, updates, number, scalars), by_unit);
    if (by_unit && part.ends_unit) model_.parameters().unit_updated(part.unit);
  });
  if (matrices_ != nullptr) matrices_->wait_for_all();
  model_.parameters().end_update();
}

UpdateOptions OptimizerStep::options_of(const Part& part, std::span<const UpdateStep> updates,
                                        std::int64_t number,
                                        std::span<const StepScalars> scalars) const {
  const auto adapter = static_cast<std::size_t>(part.adapter);
  return {updates[adapter].learning_rate * group_of(part).rate_ratio, number,
          scalars[adapter].clip_factor, scalars[adapter].skip, num_unclipped_};
}

// Replaces the gradients of matrices by their orthogonalised momentum.
void OptimizerStep::orthogonalise(std::span<const UpdateStep> updates, std::int64_t number,
                                  std::span<const StepScalars> scalars) {
  const TraceRange range("orthogonalise");
  for_each_part(UpdatePass::kPrepare, [&](const Part& part, const ShardPart& tensors) {
    const UpdateOptions options = options_of(part, updates, number, scalars);
    group_of(part).optimizer->prepare(tensors, part.ranges, options);
  });
  const GemmTiming& timing = model_.operator_options().gemm_timing;
  matrices_->run(model_.gradient(), [&](const at::Tensor& matrices) {
    newton_schulz(matrices, muon_scale(matrices.size(1), matrices.size(2)), timing);
  });
}

// Replaces the gradients of parameters with factored moments by their updates.
void OptimizerStep::factor(std::span<const UpdateStep> updates, std::int64_t number,
                           std::span<const StepScalars> scalars) {
  const TraceRange range("factored moments");
  if (matrices_ != nullptr) matrices_->wait_for_all();  // both use one communicator
  factored_->run(model_.gradient(), [&](const ParameterSpec& parameter) {
    return options_of({.adapter = parameter.adapter, .optimizer = parameter.optimizer}, updates,
                      number, scalars);
  });
}

void OptimizerStep::update_part(const Part& part, const ShardPart& tensors,
                                const UpdateOptions& options, bool by_unit) {
  const Optimizer& optimizer = *group_of(part).optimizer;
  if (optimizer.orthogonalises()) matrices_->wait_for(part.last_unit);
  const std::string name = optimizer.name();
  const TraceRange range(by_unit ? name + " " + model_.units().units[part.unit].name : name);
  optimizer.update(tensors, part.ranges, options);
}

}  // namespace packtrain
