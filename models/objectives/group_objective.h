// An objective of groups: a loss of the log-probabilities of their examples, and the next-token
// loss of chosen examples with a weight:
//    loss = loss of groups + next_token_weight x sum_n DeviceBatch::loss_weight_n x row loss_n
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/objectives/example_rows.h"
#include "models/objectives/objective.h"

namespace packtrain {

// A loss of groups reads this: N rows of E examples, both at least 1.
struct GroupInput {
  const DeviceBatch& batch;
  const GroupRows& groups;
  ExampleRows rows;
  at::Tensor log_probs;  // float64 [N]
  // float64 [N], or undefined: the loss reads none.
  at::Tensor reference;

  // float64 [E]
  at::Tensor group_weights() const { return groups.group_weights.to(at::kDouble); }
};

struct GroupLoss {
  at::Tensor value;     // float64 []
  at::Tensor gradient;  // float64 [N]: d value / d log_probs
};

// An estimate of KL(policy || reference) in each row, which is never negative. It is r - log r - 1
// with the ratio of probabilities r = reference / policy (Schulman, "Approximating KL divergence",
// 2020: k3).
struct Divergence {
  at::Tensor values;    // float64 [N]
  at::Tensor gradient;  // float64 [N]: d values / d log_probs
};
// `input` has a reference.
Divergence divergence_of(const GroupInput& input);

// A value for the log: its sum and the number of its terms, float64 [].
struct StatisticSum {
  at::Tensor sum;
  at::Tensor count;
};
// Sums all elements of `values`.
StatisticSum sum_of(const at::Tensor& values);
// Sums the elements where `mask` (bool) is set.
StatisticSum sum_of(const at::Tensor& values, const at::Tensor& mask);

struct GroupObjectiveOptions {
  double next_token_weight = 0;
  bool needs_reference = false;
};

class GroupObjective : public Objective {
 public:
  bool is_linear() const final { return false; }
  // Throws Error(kInternal) for a batch without groups, or without what the loss needs of them.
  ObjectiveValue evaluate(const DeviceBatch& batch, const at::Tensor& row_losses) const final;
  std::vector<std::string> statistics() const final;
  at::Tensor sums(const DeviceBatch& batch, const at::Tensor& row_losses) const final;

 protected:
  explicit GroupObjective(const GroupObjectiveOptions& options) : options_(options) {}
  virtual GroupLoss loss_of(const GroupInput& input) const = 0;
  // Names, and their sums in the same order.
  virtual std::vector<std::string> group_statistics() const = 0;
  virtual std::vector<StatisticSum> group_sums(const GroupInput& input) const = 0;

 private:
  GroupInput input_of(const DeviceBatch& batch, const at::Tensor& row_losses) const;

  GroupObjectiveOptions options_;
};

}  // namespace packtrain
