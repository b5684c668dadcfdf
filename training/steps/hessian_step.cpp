// OptimizerStep's update of a Hessian estimate.
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/bitwise_or.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "framework/device/trace_range.h"
#include "training/optimizers/sophia.h"
#include "training/optimizers/unclipped.h"
#include "training/steps/optimizer_step.h"

namespace packtrain {

void OptimizerStep::count_estimated() {
  std::int64_t numel = 0;
  for (const Part& part : parts_) {
    if (group_of(part).optimizer->has_hessian()) numel += part.numel;
  }
  if (numel == 0) return;
  for (const ShardView& shard : model_.parameters().shards()) {
    const bool has_estimate = std::ranges::find(shard.optimizer, kSophiaHessian,
                                                &OptimizerTensor::name) != shard.optimizer.end();
    if (has_estimate) num_estimated_ += shard.numel;
  }
  num_gaps_ = numel - num_estimated_;
}

void OptimizerStep::begin_counts(const at::Tensor& skip) {
  skipped_ = skip;
  num_unclipped_ = at::zeros({kUnclippedCounters}, skip.options().dtype(at::kInt));
}

// Gaps of the shard have no step, so that the update counts them as unclipped. Their number depends
// on the ranks, and is subtracted.
at::Tensor OptimizerStep::unclipped_details() const {
  const at::Tensor counted = num_unclipped_.sum().to(at::kFloat);
  return at::stack({counted - static_cast<double>(num_gaps_),
                    at::full({}, static_cast<double>(num_estimated_), counted.options())});
}

void OptimizerStep::run_hessian(const at::Tensor& loss, double num_tokens, std::int64_t number,
                                const StepRequests& requests, StepOutcome& outcome) {
  at::Tensor report;
  model_.compute().run([&](StreamHandle) {
    const at::NoGradGuard no_grad;
    const TraceRange range("hessian");
    const at::Tensor details = unclipped_details();
    at::Tensor partials = model_.squared_norm_partials();
    partials.div_(model_.ranks().mesh().replicate.size);  // each replica has the whole norm
    const at::Tensor sums = step_sums(partials, loss, requests.counts(), details);
    model_.ranks().sum(sums, model_.compute());
    const StepScalars scalars = step_scalars(sums, /*max_norm=*/0);
    const HessianOptions update{num_tokens, number, at::bitwise_or(scalars.skip, skipped_)};
    for_each_part(UpdatePass::kHessian, [&](const Part& part, const ShardPart& tensors) {
      group_of(part).optimizer->update_hessian(tensors, part.ranges, update);
    });
    report = scalars.outcome;
  });
  outcome.receive(report, model_.compute());
}

}  // namespace packtrain
