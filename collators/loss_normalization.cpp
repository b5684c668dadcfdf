// What the losses of a step are divided by.
#include "collators/batch_builder.h"

namespace packtrain {
namespace {

double denominator_of(const StepCounts& counts, Normalize mode) {
  return mode == Normalize::kTokens ? counts.loss_token_weight : counts.example_weight;
}

}  // namespace

double LossNormalization::denominator_of(std::int64_t example) const {
  if (parts.empty()) return denominator;
  return packtrain::denominator_of(parts[part_of(parts, example)].counts, mode);
}

LossNormalization loss_normalization(const StepPlan& plan, Normalize mode) {
  return {mode, denominator_of(plan, mode), plan.parts, plan.group_weight};
}

}  // namespace packtrain
