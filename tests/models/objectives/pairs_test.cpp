// Losses of pairs against formulas of one pair in float64, with their gradients by autograd.
#include "models/objectives/pairs.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/expm1.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/log.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <limits>

#include "framework/core/error.h"
#include "models/objectives/make_objective.h"
#include "tests/models/objectives/group_batches.h"

namespace packtrain::pairs_test {
namespace {

class PairLoss : public testing::TestWithParam<OperatorCase> {
 protected:
  RandomGroups pairs() const { return random_pairs(GetParam(), {4, 1, 3, 7, 2, 2}); }
};
INSTANTIATE_TEST_SUITE_P(Devices, PairLoss, testing::ValuesIn(operator_cases()), case_name);

// The log-probabilities of one pair, and what its batch says of it.
struct Pair {
  at::Tensor chosen;
  at::Tensor rejected;
  at::Tensor reference_chosen;
  at::Tensor reference_rejected;
  double margin;
};

using PairFormula = std::function<at::Tensor(const Pair&)>;

// Loss of a batch: the sum of those of its pairs, with their weights.
GroupFormula over_pairs(const RandomGroups& groups, const PairFormula& formula) {
  return [&groups, formula](const ByExample& log_probs) {
    const ByExample reference = by_example(groups, groups.batch.groups.reference);
    at::Tensor loss = at::zeros({}, at::TensorOptions(at::kDouble));
    for (std::size_t e = 0; e < log_probs.size(); e += 2) {
      const auto example = static_cast<std::int64_t>(e);
      const Pair pair{log_probs[e], log_probs[e + 1], reference[e], reference[e + 1],
                      value_of(groups.batch.groups.margins, example)};
      loss = loss + formula(pair) * value_of(groups.batch.groups.group_weights, example);
    }
    return loss;
  };
}

at::Tensor log_of_sigmoid(const at::Tensor& x) {
  return at::log(1 / (1 + at::exp(-x)));
}

void expect_matches(const ObjectiveSection& section, const RandomGroups& groups,
                    double next_token_weight, const PairFormula& formula) {
  expect_matches_formula(*make_objective(section), groups, next_token_weight,
                         over_pairs(groups, formula));
}

TEST_P(PairLoss, OfDpoIsItsFormula) {
  ObjectiveSection section{.kind = ObjectiveKind::kDpo, .beta = 0.3};
  expect_matches(section, pairs(), 0, [](const Pair& pair) {
    const at::Tensor chosen = pair.chosen.sum() - pair.reference_chosen.sum();
    const at::Tensor rejected = pair.rejected.sum() - pair.reference_rejected.sum();
    return -log_of_sigmoid(0.3 * (chosen - rejected));
  });
}

TEST_P(PairLoss, OfDpoHasLabelSmoothingMarginsAndANextTokenTerm) {
  ObjectiveSection section{.kind = ObjectiveKind::kDpo, .label_smoothing = 0.2};
  section.margin_scale = 0.7;
  section.next_token_weight = 0.5;
  expect_matches(section, pairs(), 0.5, [](const Pair& pair) {
    const at::Tensor chosen = pair.chosen.sum() - pair.reference_chosen.sum();
    const at::Tensor rejected = pair.rejected.sum() - pair.reference_rejected.sum();
    const at::Tensor h = 0.1 * (chosen - rejected) - 0.7 * pair.margin;
    return -0.8 * log_of_sigmoid(h) - 0.2 * log_of_sigmoid(-h);
  });
}

TEST_P(PairLoss, OfDpoReadsMeansWithLengthNormalize) {
  ObjectiveSection section{.kind = ObjectiveKind::kDpo, .beta = 2, .length_normalize = true};
  expect_matches(section, pairs(), 0, [](const Pair& pair) {
    const at::Tensor chosen = pair.chosen.mean() - pair.reference_chosen.mean();
    const at::Tensor rejected = pair.rejected.mean() - pair.reference_rejected.mean();
    return -log_of_sigmoid(2 * (chosen - rejected));
  });
}

TEST_P(PairLoss, OfIpoIsItsFormula) {
  ObjectiveSection section{.kind = ObjectiveKind::kIpo, .beta = 0.4};
  expect_matches(section, pairs(), 0, [](const Pair& pair) {
    const at::Tensor chosen = pair.chosen.mean() - pair.reference_chosen.mean();
    const at::Tensor rejected = pair.rejected.mean() - pair.reference_rejected.mean();
    return (chosen - rejected - 1.25).square();
  });
}

TEST_P(PairLoss, OfOrpoIsItsFormula) {
  const ObjectiveSection section{.kind = ObjectiveKind::kOrpo};
  expect_matches(section, pairs(), 1, [](const Pair& pair) {
    const at::Tensor chosen = at::exp(pair.chosen.mean());
    const at::Tensor rejected = at::exp(pair.rejected.mean());
    const at::Tensor odds_ratio = (chosen / (1 - chosen)) / (rejected / (1 - rejected));
    return -0.1 * at::log(odds_ratio / (1 + odds_ratio));
  });
}

TEST_P(PairLoss, OfOrpoIsFiniteForAnswersThatAreCertain) {
  RandomGroups groups = pairs();
  groups.row_losses.zero_();
  const ObjectiveValue value =
      make_objective({.kind = ObjectiveKind::kOrpo})->evaluate(groups.batch, groups.row_losses);
  EXPECT_TRUE(std::isfinite(value.loss.item<double>()));
  EXPECT_TRUE(std::isfinite(value.gradient.abs().sum().item<double>()));
}

PairFormula orpo_formula(double beta) {
  return [beta](const Pair& pair) {
    const auto log_odds = [](const at::Tensor& mean) { return mean - at::log(-at::expm1(mean)); };
    const at::Tensor difference = log_odds(pair.chosen.mean()) - log_odds(pair.rejected.mean());
    return -beta * log_of_sigmoid(difference);
  };
}

// The formula in float64 has its own slope of up to 5e5 there.
TEST_P(PairLoss, OfOrpoIsItsFormulaForAnswersThatAreNearlyCertain) {
  const ObjectiveSection section{.kind = ObjectiveKind::kOrpo};
  for (const double loss : {1.01e-6, 2e-6, 1e-5, 1e-3}) {
    RandomGroups groups = pairs();
    groups.row_losses.narrow(0, 0, 4).fill_(loss);      // the chosen answer of the first pair
    groups.row_losses.narrow(0, 5, 3).fill_(loss);      // both answers of the second
    groups.row_losses.narrow(0, 8, 7).fill_(3 * loss);  // the rejected one
    expect_matches(section, groups, 1, orpo_formula(0.1));
  }
}

TEST_P(PairLoss, OfOrpoStaysAtItsBoundForAnswersThatAreCertain) {
  const auto orpo = make_objective({.kind = ObjectiveKind::kOrpo, .next_token_weight = 0});
  const auto of_losses_of = [&](double loss) {
    RandomGroups groups = pairs();
    groups.row_losses.narrow(0, 0, 4).fill_(loss);
    return orpo->evaluate(groups.batch, groups.row_losses);
  };
  const ObjectiveValue bound = of_losses_of(1e-6);
  for (const double loss : {0.0, 1e-8, 9e-7}) {
    const ObjectiveValue value = of_losses_of(loss);
    expect_close(value.loss, bound.loss.cpu().to(at::kDouble), 1e-6, "loss");
    expect_close(value.gradient, bound.gradient.cpu().to(at::kDouble), 1e-6, "gradient");
  }
}

TEST_P(PairLoss, OfSimpoIsItsFormula) {
  ObjectiveSection section{.kind = ObjectiveKind::kSimpo, .label_smoothing = 0.1};  // not read
  section.target_margin = 0.8;
  expect_matches(section, pairs(), 0, [](const Pair& pair) {
    return -log_of_sigmoid(2 * (pair.chosen.mean() - pair.rejected.mean()) - 0.8);
  });
}

TEST_P(PairLoss, OfCpoIsItsFormula) {
  ObjectiveSection section{.kind = ObjectiveKind::kCpo, .label_smoothing = 0.1};
  expect_matches(section, pairs(), 1, [](const Pair& pair) {
    const at::Tensor h = 0.1 * (pair.chosen.sum() - pair.rejected.sum());
    return -0.9 * log_of_sigmoid(h) - 0.1 * log_of_sigmoid(-h);
  });
  section.length_normalize = true;
  section.beta = 3;
  section.next_token_weight = 0;
  expect_matches(section, pairs(), 0, [](const Pair& pair) {
    const at::Tensor h = 3 * (pair.chosen.mean() - pair.rejected.mean());
    return -0.9 * log_of_sigmoid(h) - 0.1 * log_of_sigmoid(-h);
  });
}

TEST_P(PairLoss, IsFiniteForScoresThatAreFarApart) {
  for (const double scale : {1e4, -1e4}) {
    RandomGroups groups = random_pairs(GetParam(), {1, 1});
    groups.row_losses[0] = scale > 0 ? 0 : -scale;
    groups.row_losses[1] = scale > 0 ? scale : 0;
    const ObjectiveValue value =
        make_objective({.kind = ObjectiveKind::kDpo})->evaluate(groups.batch, groups.row_losses);
    EXPECT_TRUE(std::isfinite(value.loss.item<double>()));
    EXPECT_TRUE(std::isfinite(value.gradient.abs().sum().item<double>()));
  }
}

TEST_P(PairLoss, OfAPairAloneIsItsPartInABatch) {
  const RandomGroups all = pairs();
  const std::shared_ptr<const Objective> objective =
      make_objective({.kind = ObjectiveKind::kDpo, .next_token_weight = 0.5});
  double loss = 0;
  std::int64_t begin = 0;
  const at::Tensor gradient = objective->evaluate(all.batch, all.row_losses).gradient;
  for (std::int64_t pair = 0; pair < 3; ++pair) {
    RandomGroups one = all;
    const auto of_pair = [&](const at::Tensor& x) { return x.narrow(0, 2 * pair, 2); };
    GroupRows& groups = one.batch.groups;
    for (at::Tensor* x :
         {&groups.num_rows, &groups.roles, &groups.group_weights, &groups.margins}) {
      *x = of_pair(*x);
    }
    const auto count = groups.num_rows.sum().item<std::int64_t>();
    for (at::Tensor* x : {&groups.reference, &one.batch.loss_weight, &one.row_losses}) {
      *x = x->narrow(0, begin, count);
    }
    const ObjectiveValue value = objective->evaluate(one.batch, one.row_losses);
    loss += value.loss.item<double>();
    EXPECT_TRUE(at::equal(value.gradient, gradient.narrow(0, begin, count))) << "pair " << pair;
    begin += count;
  }
  EXPECT_NEAR(objective->evaluate(all.batch, all.row_losses).loss.item<double>(), loss, 1e-5);
}

TEST_P(PairLoss, OfNoRowsIsZero) {
  const OperatorCase& on = GetParam();
  DeviceBatch batch;
  batch.loss_weight = at::empty({0}, at::TensorOptions(at::kFloat).device(on.device));
  const std::shared_ptr<const Objective> objective = make_objective({.kind = ObjectiveKind::kDpo});
  const ObjectiveValue value = objective->evaluate(batch, batch.loss_weight);
  EXPECT_EQ(value.loss.item<float>(), 0);
  EXPECT_EQ(value.gradient.numel(), 0);
  const at::Tensor sums = objective->sums(batch, batch.loss_weight);
  EXPECT_EQ(sums.numel(), 2 * std::ssize(objective->statistics()));
  EXPECT_EQ(sums.abs().sum().item<double>(), 0);
}

TEST_P(PairLoss, RefusesABatchWithoutWhatItReads) {
  const std::shared_ptr<const Objective> dpo =
      make_objective({.kind = ObjectiveKind::kDpo, .margin_scale = 1});
  RandomGroups groups = pairs();
  groups.batch.groups.margins.reset();
  EXPECT_THROW(dpo->evaluate(groups.batch, groups.row_losses), Error);
  groups = pairs();
  groups.batch.groups.reference.reset();
  EXPECT_THROW(dpo->evaluate(groups.batch, groups.row_losses), Error);
  groups.batch.groups = {};
  EXPECT_THROW(dpo->evaluate(groups.batch, groups.row_losses), Error);
}

// Pairs with log-probabilities of -1 a token, and of a reference -2 a token.
TEST_P(PairLoss, HasStatisticsOfBothSides) {
  RandomGroups groups = random_pairs(GetParam(), {4, 1, 3, 7});
  groups.row_losses.fill_(1);
  groups.batch.groups.reference.fill_(-2);
  const auto dpo = make_objective({.kind = ObjectiveKind::kDpo, .beta = 0.5});
  EXPECT_DOUBLE_EQ(statistic(*dpo, groups, "reward_chosen"), (2.0 + 1.5) / 2);
  EXPECT_DOUBLE_EQ(statistic(*dpo, groups, "reward_rejected"), (0.5 + 3.5) / 2);
  EXPECT_DOUBLE_EQ(statistic(*dpo, groups, "reward_margin"), (1.5 - 2.0) / 2);
  EXPECT_DOUBLE_EQ(statistic(*dpo, groups, "reward_accuracy"), 0.5);
  EXPECT_DOUBLE_EQ(statistic(*dpo, groups, "log_prob_chosen"), -3.5);
  EXPECT_DOUBLE_EQ(statistic(*dpo, groups, "log_prob_rejected"), -4);
  EXPECT_DOUBLE_EQ(statistic(*dpo, groups, "reference_divergence"), std::exp(-1.0));
  EXPECT_DOUBLE_EQ(statistic(*dpo, groups, "next_token_loss"), 1);
}

}  // namespace
}  // namespace packtrain::pairs_test
