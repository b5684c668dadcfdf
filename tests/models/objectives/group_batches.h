// Batches of groups with random row losses, and a comparison of an objective with a formula.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "framework/config/objective_section.h"
#include "framework/data/example_groups.h"
#include "models/objectives/objective.h"
#include "tests/models/cases.h"

namespace packtrain {

struct RandomGroups {
  DeviceBatch batch;
  at::Tensor row_losses;

  std::int64_t num_examples() const { return batch.groups.num_rows.size(0); }
};

// Examples with these numbers of supervised rows and these roles. Two of kChosen and kRejected are
// a group, every other one is alone. Groups have weights 0.5, 0.75, 1, ...; chosen, desirable and
// other examples but rejected and undesirable ones have next-token weights. The batch has margins
// and log-probabilities of a reference.
RandomGroups random_groups(const OperatorCase& on, const std::vector<std::int64_t>& num_rows,
                           const std::vector<GroupRole>& roles);
// Pairs.
RandomGroups random_pairs(const OperatorCase& on, const std::vector<std::int64_t>& num_rows);

// float64 values of supervised rows on the CPU, by example.
using ByExample = std::vector<at::Tensor>;
ByExample by_example(const RandomGroups& groups, const at::Tensor& of_rows);

// Values of an example's row in `of_examples` of the batch.
double value_of(const at::Tensor& of_examples, std::int64_t example);

// A loss, float64 [], of the log-probabilities of the rows of each example.
using GroupFormula = std::function<at::Tensor(const ByExample& log_probs)>;
// Compares loss and gradient with those of the formula, in float64 by autograd. The next-token term
// is added here: `next_token_weight`.
void expect_matches_formula(const Objective& objective, const RandomGroups& groups,
                            double next_token_weight, const GroupFormula& formula);

// The value that a log shows. Fails where the objective has no such statistic.
double statistic(const Objective& objective, const RandomGroups& groups, const std::string& name);

}  // namespace packtrain
