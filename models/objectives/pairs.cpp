#include "models/objectives/pairs.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/clamp_max.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/expm1.h>
#include <ATen/ops/gt.h>
#include <ATen/ops/log.h>
#include <ATen/ops/log_sigmoid.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/stack.h>

#include "framework/config/objective_settings.h"
#include "framework/core/error.h"

namespace packtrain {
namespace {

// The largest mean log-probability of an answer in ORPO's odds. At P = 1 the odds are infinite, and
// so are TRL's loss and gradient. Row losses are differences of float32 numbers, so smaller ones
// are only rounding. Beyond the bound loss and slope are those at the bound.
constexpr double kMaxMeanLogProb = -1e-6;

// Examples 2 g and 2 g + 1 are the chosen and the rejected one of pair g.
PairScores pairs_of(const at::Tensor& of_examples) {
  const at::Tensor pairs = of_examples.view({-1, 2});
  return {pairs.select(1, 0), pairs.select(1, 1)};
}

at::Tensor log_odds(const at::Tensor& log_prob) {
  return log_prob - at::log(at::expm1(log_prob).neg());
}

at::Tensor log_odds_slope(const at::Tensor& log_prob) {
  return at::expm1(log_prob).neg().reciprocal();
}

bool reads_means(const ObjectiveSection& section) {
  switch (section.kind) {
    case ObjectiveKind::kIpo:
    case ObjectiveKind::kOrpo:
    case ObjectiveKind::kSimpo:
      return true;
    case ObjectiveKind::kDpo:
    case ObjectiveKind::kCpo:
      return section.length_normalize;
    default:
      throw Error(ErrorCategory::kInternal, "objective: the kind is none of pairs");
  }
}

}  // namespace

// float64 [G]: losses of pairs and their derivatives by the scores.
struct PairObjective::PairLosses {
  at::Tensor value;
  at::Tensor by_chosen;
  at::Tensor by_rejected;
};

PairObjective::PairObjective(const ObjectiveSection& section)
    : GroupObjective({.next_token_weight = resolved_next_token_weight(section),
                      .needs_reference = has_reference(section)}),
      section_(section),
      beta_(resolved_beta(section)),
      means_(reads_means(section)) {}

at::Tensor PairObjective::scores(const GroupInput& input, const at::Tensor& log_probs) const {
  const at::Tensor sums =
      input.rows.sum(input.reference.defined() ? log_probs - input.reference : log_probs);
  return means_ ? sums / input.rows.counts() : sums;
}

PairObjective::PairLosses PairObjective::losses(const PairScores& scores,
                                                const at::Tensor& margins) const {
  if (section_.kind == ObjectiveKind::kIpo) {
    const at::Tensor error = scores.chosen - scores.rejected - 1 / (2 * beta_);
    const at::Tensor slope = 2 * error;
    return {error.square(), slope, slope.neg()};
  }
  if (section_.kind == ObjectiveKind::kOrpo) {
    const at::Tensor chosen = at::clamp_max(scores.chosen, kMaxMeanLogProb);
    const at::Tensor rejected = at::clamp_max(scores.rejected, kMaxMeanLogProb);
    const at::Tensor difference = log_odds(chosen) - log_odds(rejected);
    const at::Tensor slope = at::sigmoid(difference.neg()) * -beta_;
    return {at::log_sigmoid(difference) * -beta_, slope * log_odds_slope(chosen),
            slope.neg() * log_odds_slope(rejected)};
  }
  at::Tensor h = beta_ * (scores.chosen - scores.rejected);
  if (section_.kind == ObjectiveKind::kSimpo) h = h - section_.target_margin;
  if (margins.defined()) h = h - margins * section_.margin_scale;
  const double e = section_.kind == ObjectiveKind::kSimpo ? 0 : section_.label_smoothing;
  const at::Tensor slope = beta_ * (at::sigmoid(h) - (1 - e));
  return {-(1 - e) * at::log_sigmoid(h) - e * at::log_sigmoid(h.neg()), slope, slope.neg()};
}

GroupLoss PairObjective::loss_of(const GroupInput& input) const {
  at::Tensor margins;
  if (section_.kind == ObjectiveKind::kDpo && section_.margin_scale != 0) {
    if (!input.groups.margins.defined()) {
      throw Error(ErrorCategory::kData, "objective.margin_scale: the store's pairs have no margins",
                  "Prepare the store from data with margins, or set objective.margin_scale: 0.");
    }
    margins = pairs_of(input.groups.margins.to(at::kDouble)).chosen;
  }
  const PairLosses pairs = losses(pairs_of(scores(input, input.log_probs)), margins);
  const at::Tensor weights = pairs_of(input.group_weights()).chosen;
  at::Tensor by_example =
      at::stack({pairs.by_chosen * weights, pairs.by_rejected * weights}, 1).view({-1});
  if (means_) by_example = by_example / input.rows.counts();
  return {(pairs.value * weights).sum(), input.rows.spread(by_example)};
}

std::vector<std::string> PairObjective::group_statistics() const {
  return {"reward_chosen",   "reward_rejected", "reward_margin",
          "reward_accuracy", "log_prob_chosen", "log_prob_rejected"};
}

std::vector<StatisticSum> PairObjective::group_sums(const GroupInput& input) const {
  const PairScores rewards = pairs_of(scores(input, input.log_probs) * beta_);
  const PairScores log_probs = pairs_of(input.rows.sum(input.log_probs));
  return {sum_of(rewards.chosen),
          sum_of(rewards.rejected),
          sum_of(rewards.chosen - rewards.rejected),
          sum_of(at::gt(rewards.chosen, rewards.rejected)),
          sum_of(log_probs.chosen),
          sum_of(log_probs.rejected)};
}

}  // namespace packtrain
