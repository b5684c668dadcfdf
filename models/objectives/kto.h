// KTO, the loss of judged answers. With r = log p - log q, where log p is the sum of an answer's
// log-probabilities and q the reference, and z = max(0, GroupRows::kl):
//    desirable:    desirable_weight (1 - sigmoid(beta (r - z)))
//    undesirable:  undesirable_weight (1 - sigmoid(beta (z - r)))
// The loss of a micro-batch is the sum over its answers, times their group_weights. No gradient
// passes through z. Source: Ethayarajh et al., arXiv 2402.01306, equation 8.
#pragma once

#include <string>
#include <vector>

#include "framework/config/objective_section.h"
#include "models/objectives/group_objective.h"

namespace packtrain {

class Kto final : public GroupObjective {
 public:
  explicit Kto(const ObjectiveSection& section);

 protected:
  GroupLoss loss_of(const GroupInput& input) const override;
  // Desirable answers have the names of chosen ones, undesirable those of rejected ones. The reward
  // of an answer is beta r. `kto_divergence` is z.
  std::vector<std::string> group_statistics() const override;
  std::vector<StatisticSum> group_sums(const GroupInput& input) const override;

 private:
  double beta_;
  double desirable_weight_;
  double undesirable_weight_;
};

}  // namespace packtrain
