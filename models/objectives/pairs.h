// Losses of pairs: a chosen and a rejected example of one prompt. Each has a score. The score of
// the chosen one minus that of the rejected one is d. The sum of an answer's log-probabilities is
// log p, and log p/n is their mean over its n supervised tokens. The reference is q.
//    kind   score                 loss
//    dpo    log p - log q         -(1 - e) log sigmoid(h) - e log sigmoid(-h),
//                                 h = beta d - margin_scale margin;  e = label_smoothing
//    cpo    log p                 the same
//    simpo  log p/n               the same with e = 0, h = beta d - target_margin
//    ipo    (log p - log q)/n     (d - 1 / (2 beta))^2
//    orpo   log p/n               -beta log sigmoid(d), with log(P / (1 - P)) of P = exp(score)
//                                 instead of the score in d
// With length_normalize the scores of dpo and cpo are means over tokens too. The loss of a
// micro-batch is the sum over its pairs, times their group_weights.
//
// Sources. DPO: Rafailov et al., arXiv 2305.18290. Label smoothing: Mitchell, "A note on DPO with
// noisy preferences" (cDPO). Margins: Amini et al., arXiv 2402.10571 (ODPO). SimPO: Meng et al.,
// arXiv 2405.14734. IPO: Azar et al., arXiv 2310.12036. Its means over tokens are those of TRL.
// ORPO: Hong et al., arXiv 2403.07691. CPO: Xu et al., arXiv 2401.08417. The next-token term of
// chosen answers: Pang et al., arXiv 2404.19733 (RPO).
#pragma once

#include <string>
#include <vector>

#include "framework/config/objective_section.h"
#include "models/objectives/group_objective.h"

namespace packtrain {

// float64 [G] each.
struct PairScores {
  at::Tensor chosen;
  at::Tensor rejected;
};

class PairObjective final : public GroupObjective {
 public:
  // A section with kind dpo, ipo, orpo, simpo or cpo.
  explicit PairObjective(const ObjectiveSection& section);

 protected:
  GroupLoss loss_of(const GroupInput& input) const override;
  // The reward of an answer is beta times its score.
  std::vector<std::string> group_statistics() const override;
  std::vector<StatisticSum> group_sums(const GroupInput& input) const override;

 private:
  struct PairLosses;
  // float64 [E] the scores of all examples, of log-probabilities float64 [N].
  at::Tensor scores(const GroupInput& input, const at::Tensor& log_probs) const;
  PairLosses losses(const PairScores& scores, const at::Tensor& margins) const;

  ObjectiveSection section_;
  double beta_;
  bool means_;  // scores are means over tokens
};

}  // namespace packtrain
