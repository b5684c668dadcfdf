// KTO against its formula of one answer in float64, with gradients by autograd.
#include "models/objectives/kto.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "framework/core/error.h"
#include "models/objectives/make_objective.h"
#include "tests/models/objectives/group_batches.h"

namespace packtrain::kto_test {
namespace {

class KtoLoss : public testing::TestWithParam<OperatorCase> {
 protected:
  RandomGroups answers(float divergence) const {
    RandomGroups groups = random_groups(GetParam(), {3, 5, 1, 4},
                                        {GroupRole::kDesirable, GroupRole::kUndesirable,
                                         GroupRole::kUndesirable, GroupRole::kDesirable});
    groups.batch.groups.kl = at::tensor(divergence).to(GetParam().device);
    return groups;
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, KtoLoss, testing::ValuesIn(operator_cases()), case_name);

at::Tensor sigmoid_of(const at::Tensor& x) {
  return 1 / (1 + at::exp(-x));
}

GroupFormula formula(const RandomGroups& groups, double divergence) {
  return [&groups, divergence](const ByExample& log_probs) {
    const ByExample reference = by_example(groups, groups.batch.groups.reference);
    at::Tensor loss = at::zeros({}, at::TensorOptions(at::kDouble));
    for (std::size_t e = 0; e < log_probs.size(); ++e) {
      const at::Tensor log_ratio = log_probs[e].sum() - reference[e].sum();
      const bool desirable = e == 0 || e == 3;
      const at::Tensor value = desirable ? 1.5 * (1 - sigmoid_of(0.2 * (log_ratio - divergence)))
                                         : 0.75 * (1 - sigmoid_of(0.2 * (divergence - log_ratio)));
      loss =
          loss + value * value_of(groups.batch.groups.group_weights, static_cast<std::int64_t>(e));
    }
    return loss;
  };
}

ObjectiveSection section() {
  ObjectiveSection section{.kind = ObjectiveKind::kKto, .beta = 0.2};
  section.desirable_weight = 1.5;
  section.undesirable_weight = 0.75;
  return section;
}

TEST_P(KtoLoss, IsItsFormula) {
  const RandomGroups groups = answers(0.6F);
  expect_matches_formula(*make_objective(section()), groups, 0, formula(groups, 0.6F));
}

TEST_P(KtoLoss, TakesANegativeDivergenceAs0) {
  const RandomGroups groups = answers(-0.6F);
  expect_matches_formula(*make_objective(section()), groups, 0, formula(groups, 0));
}

TEST_P(KtoLoss, AddsANextTokenTermOfDesirableAnswers) {
  const RandomGroups groups = answers(0.6F);
  ObjectiveSection with_term = section();
  with_term.next_token_weight = 0.5;
  expect_matches_formula(*make_objective(with_term), groups, 0.5, formula(groups, 0.6F));
}

TEST_P(KtoLoss, RefusesABatchWithoutTheDivergence) {
  RandomGroups groups = answers(0);
  groups.batch.groups.kl.reset();
  EXPECT_THROW(make_objective(section())->evaluate(groups.batch, groups.row_losses), Error);
}

// Log-probabilities of -1 a token, and of the reference -2 a token.
TEST_P(KtoLoss, HasStatisticsOfBothSides) {
  RandomGroups groups = answers(-3);
  groups.row_losses.fill_(1);
  groups.batch.groups.reference.fill_(-2);
  const auto kto = make_objective(section());
  EXPECT_DOUBLE_EQ(statistic(*kto, groups, "reward_chosen"), 0.2 * (3 + 4) / 2);
  EXPECT_DOUBLE_EQ(statistic(*kto, groups, "reward_rejected"), 0.2 * (5 + 1) / 2);
  EXPECT_DOUBLE_EQ(statistic(*kto, groups, "log_prob_chosen"), -3.5);
  EXPECT_DOUBLE_EQ(statistic(*kto, groups, "log_prob_rejected"), -3);
  EXPECT_DOUBLE_EQ(statistic(*kto, groups, "kto_divergence"), 0);
  EXPECT_DOUBLE_EQ(statistic(*kto, groups, "next_token_loss"), 1);
}

}  // namespace
}  // namespace packtrain::kto_test
