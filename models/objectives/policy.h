// Policy-gradient losses of rollouts. A row has three columns of tokens: `advantage` A,
// `old_log_prob` log o, and `weight` u. The policy is p, the policy that sampled the token is o,
// and the reference is q. Without old_log_prob, o is p and has no gradient. Without `weight`, u
// is 1. The weight w of the row is in DeviceBatch::loss_weight.
//    r = p / o; of an example (RatioLevel): exp of the mean of log p - log o over its rows
//    c = r, at least 1 - clip_low and at most 1 + clip_high
//    clip:   -w u min(r A, c A)
//    cispo:  -w u c A log p, where c has no gradient
//    beta:   w beta (q / p - log(q / p) - 1) is added
// The loss of a micro-batch is the sum over rows.
//
// Sources. The loss `clip`: Schulman et al., arXiv 1707.06347 (PPO). The divergence and weights by
// `examples`: Shao et al., arXiv 2402.03300 (GRPO). Weights by `tokens` and clip_high apart from
// clip_low: Yu et al., arXiv 2503.14476 (DAPO). The loss `cispo`: MiniMax-M1, arXiv 2506.13585.
// Ratio of an example: Zheng et al., arXiv 2507.18071 (GSPO).
#pragma once

#include <string>
#include <vector>

#include "framework/config/objective_section.h"
#include "models/objectives/group_objective.h"

namespace packtrain {

class PolicyGradient final : public GroupObjective {
 public:
  explicit PolicyGradient(const ObjectiveSection& section);

 protected:
  GroupLoss loss_of(const GroupInput& input) const override;
  // Means over rows. A row is clipped where its ratio is out of bounds and its gradient therefore
  // zero (clip) or its factor changed (cispo).
  std::vector<std::string> group_statistics() const override;
  std::vector<StatisticSum> group_sums(const GroupInput& input) const override;

 private:
  struct Ratios;
  Ratios ratios(const GroupInput& input) const;

  PolicyLoss loss_;
  RatioLevel level_;
  double least_;  // bounds of ratios
  double most_;
  double beta_;
};

}  // namespace packtrain
