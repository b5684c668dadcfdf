#include "models/objectives/kto.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/clamp_min.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/where.h>

#include "framework/core/error.h"
#include "framework/data/example_groups.h"

namespace packtrain {
namespace {

at::Tensor is_desirable(const GroupInput& input) {
  return at::eq(input.groups.roles, static_cast<std::int64_t>(GroupRole::kDesirable));
}

at::Tensor log_ratios(const GroupInput& input) {
  return input.rows.sum(input.log_probs - input.reference);
}

at::Tensor clamped_divergence(const GroupInput& input) {
  if (!input.groups.kl.defined()) {
    throw Error(ErrorCategory::kInternal, "kto: the micro-batch has no divergence of its step");
  }
  return at::clamp_min(input.groups.kl.to(at::kDouble), 0);
}

}  // namespace

Kto::Kto(const ObjectiveSection& section)
    : GroupObjective(
          {.next_token_weight = resolved_next_token_weight(section), .needs_reference = true}),
      beta_(resolved_beta(section)),
      desirable_weight_(section.desirable_weight),
      undesirable_weight_(section.undesirable_weight) {}

GroupLoss Kto::loss_of(const GroupInput& input) const {
  const at::Tensor desirable = is_desirable(input);
  const at::Tensor log_ratio = log_ratios(input);
  const at::Tensor sign = at::where(desirable, at::full_like(log_ratio, beta_), -beta_);
  const at::Tensor weights =
      at::where(desirable, at::full_like(log_ratio, desirable_weight_), undesirable_weight_) *
      input.group_weights();
  const at::Tensor h = sign * (log_ratio - clamped_divergence(input));
  const at::Tensor lost = at::sigmoid(h.neg());  // 1 - sigmoid(h)
  const at::Tensor by_example = weights.neg() * sign * lost * at::sigmoid(h);
  return {(weights * lost).sum(), input.rows.spread(by_example)};
}

std::vector<std::string> Kto::group_statistics() const {
  return {"reward_chosen", "reward_rejected", "log_prob_chosen", "log_prob_rejected",
          "kto_divergence"};
}

std::vector<StatisticSum> Kto::group_sums(const GroupInput& input) const {
  const at::Tensor desirable = is_desirable(input);
  const at::Tensor undesirable = desirable.logical_not();
  const at::Tensor rewards = log_ratios(input) * beta_;
  const at::Tensor log_probs = input.rows.sum(input.log_probs);
  return {sum_of(rewards, desirable), sum_of(rewards, undesirable), sum_of(log_probs, desirable),
          sum_of(log_probs, undesirable),
          sum_of(clamped_divergence(input).expand({input.rows.num_examples()}))};
}

}  // namespace packtrain
