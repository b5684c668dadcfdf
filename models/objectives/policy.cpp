#include "models/objectives/policy.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/gt.h>
#include <ATen/ops/lt.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include "framework/config/objective_settings.h"
#include "framework/core/error.h"

namespace packtrain {
namespace {

// float64 [N], or undefined.
at::Tensor column(const GroupInput& input, const std::string& name) {
  const auto found = input.groups.columns.find(name);
  return found == input.groups.columns.end() ? at::Tensor() : found->second.to(at::kDouble);
}

at::Tensor advantages(const GroupInput& input) {
  at::Tensor values = column(input, "advantage");
  if (values.defined()) return values;
  throw Error(ErrorCategory::kData, "objective policy: the store has no token column 'advantage'",
              "Prepare it with --pretokenized FILE --token-column advantage.");
}

}  // namespace

// float64 [N], and bool [N].
struct PolicyGradient::Ratios {
  at::Tensor advantages;
  at::Tensor value;
  at::Tensor clipped_low;
  at::Tensor clipped_high;

  at::Tensor clipped() const { return clipped_low.logical_or(clipped_high); }
};

PolicyGradient::PolicyGradient(const ObjectiveSection& section)
    : GroupObjective({.next_token_weight = resolved_next_token_weight(section),
                      .needs_reference = has_reference(section)}),
      loss_(section.policy_loss),
      level_(section.ratio),
      least_(1 - section.clip_low),
      most_(1 + section.clip_high),
      beta_(resolved_beta(section)) {}

// The loss of `clip` has no gradient where the smaller term is the clipped one.
PolicyGradient::Ratios PolicyGradient::ratios(const GroupInput& input) const {
  const at::Tensor old = column(input, "old_log_prob");
  at::Tensor log_ratio = old.defined() ? input.log_probs - old : at::zeros_like(input.log_probs);
  if (level_ == RatioLevel::kExample) {
    log_ratio = input.rows.spread(input.rows.sum(log_ratio) / input.rows.counts());
  }
  Ratios ratios;
  ratios.advantages = advantages(input);
  ratios.value = at::exp(log_ratio);
  ratios.clipped_low = at::lt(ratios.value, least_);
  ratios.clipped_high = at::gt(ratios.value, most_);
  if (loss_ == PolicyLoss::kClip) {
    ratios.clipped_low = ratios.clipped_low.logical_and(at::lt(ratios.advantages, 0));
    ratios.clipped_high = ratios.clipped_high.logical_and(at::gt(ratios.advantages, 0));
  }
  return ratios;
}

GroupLoss PolicyGradient::loss_of(const GroupInput& input) const {
  const Ratios ratio = ratios(input);
  const at::Tensor loss_weights = input.batch.loss_weight.to(at::kDouble);
  const at::Tensor factor = column(input, "weight");
  const at::Tensor weights =
      ratio.advantages * (factor.defined() ? loss_weights * factor : loss_weights);
  const at::Tensor clipped_ratio = at::clamp(ratio.value, least_, most_);
  GroupLoss loss;
  if (loss_ == PolicyLoss::kCispo) {
    loss.gradient = (weights * clipped_ratio).neg();
    loss.value = (loss.gradient * input.log_probs).sum();
  } else {
    // min(r A, c A) is c A where the row is clipped and r A elsewhere.
    const at::Tensor clipped = ratio.clipped();
    loss.value = (weights * at::where(clipped, clipped_ratio, ratio.value)).sum().neg();
    loss.gradient = at::where(clipped, 0.0, weights * ratio.value).neg();
    if (level_ == RatioLevel::kExample) {
      loss.gradient = input.rows.spread(input.rows.sum(loss.gradient) / input.rows.counts());
    }
  }
  if (beta_ > 0) {
    const Divergence divergence = divergence_of(input);
    loss.value = loss.value + beta_ * (loss_weights * divergence.values).sum();
    loss.gradient = loss.gradient + beta_ * loss_weights * divergence.gradient;
  }
  return loss;
}

std::vector<std::string> PolicyGradient::group_statistics() const {
  return {"advantage", "log_prob", "ratio", "clipped_low", "clipped_high"};
}

std::vector<StatisticSum> PolicyGradient::group_sums(const GroupInput& input) const {
  const Ratios ratio = ratios(input);
  return {sum_of(ratio.advantages), sum_of(input.log_probs), sum_of(ratio.value),
          sum_of(ratio.clipped_low), sum_of(ratio.clipped_high)};
}

}  // namespace packtrain
