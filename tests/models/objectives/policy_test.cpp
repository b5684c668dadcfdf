// Policy-gradient losses against formulas of one example in float64, with gradients by autograd.
#include "models/objectives/policy.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "framework/core/error.h"
#include "models/objectives/make_objective.h"
#include "tests/models/objectives/group_batches.h"

namespace packtrain::policy_test {
namespace {

class PolicyGradientLoss : public testing::TestWithParam<OperatorCase> {
 protected:
  // Five examples, whose roles the loss does not read. Ratios are on both sides of both bounds.
  RandomGroups rollouts() const {
    const OperatorCase on{GetParam().device, at::kFloat, 0};
    RandomGroups groups = random_groups(GetParam(), {5, 1, 8, 3, 6},
                                        std::vector<GroupRole>(5, GroupRole::kDesirable));
    GroupRows& rows = groups.batch.groups;
    rows.columns["advantage"] = random_tensor(on, {23}, "advantage");
    rows.columns["weight"] = random_tensor(on, {23}, "weight").abs();
    rows.columns["old_log_prob"] = -groups.row_losses + 0.3 * random_tensor(on, {23}, "old");
    groups.batch.loss_weight = random_tensor(on, {23}, "loss weight").abs() / 23;
    return groups;
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, PolicyGradientLoss, testing::ValuesIn(operator_cases()),
                         case_name);

// Values of one example, float64 [its rows].
struct Rollout {
  at::Tensor log_probs;
  at::Tensor old;
  at::Tensor reference;
  at::Tensor advantage;
  at::Tensor weight;

  at::Tensor token_ratio() const { return at::exp(log_probs - old); }
  at::Tensor example_ratio() const {
    return at::exp((log_probs - old).mean()) * at::ones_like(log_probs);
  }
  at::Tensor clip(const at::Tensor& ratio) const {
    return -weight * at::minimum(ratio * advantage, at::clamp(ratio, 0.8, 1.3) * advantage);
  }
};

// Loss of a row, float64 [rows of the example].
using RowFormula = std::function<at::Tensor(const Rollout&)>;

GroupFormula over_rollouts(const RandomGroups& groups, const RowFormula& formula) {
  return [&groups, formula](const ByExample& log_probs) {
    const auto& columns = groups.batch.groups.columns;
    const auto of = [&](const std::string& name, double otherwise) {
      const auto found = columns.find(name);
      return by_example(groups, found != columns.end()
                                    ? found->second
                                    : at::full_like(groups.row_losses, otherwise));
    };
    const ByExample advantage = of("advantage", 0);
    const ByExample weight = of("weight", 1);
    const ByExample old = of("old_log_prob", 0);
    const ByExample reference = by_example(groups, groups.batch.groups.reference);
    const ByExample loss_weight = by_example(groups, groups.batch.loss_weight);
    at::Tensor loss = at::zeros({}, at::TensorOptions(at::kDouble));
    for (std::size_t e = 0; e < log_probs.size(); ++e) {
      const at::Tensor own = columns.contains("old_log_prob") ? old[e] : log_probs[e].detach();
      loss = loss +
             (loss_weight[e] * formula({log_probs[e], own, reference[e], advantage[e], weight[e]}))
                 .sum();
    }
    return loss;
  };
}

ObjectiveSection section() {
  ObjectiveSection section{.kind = ObjectiveKind::kPolicy};
  section.clip_high = 0.3;
  return section;
}

void expect_matches(const ObjectiveSection& section, const RandomGroups& groups,
                    const RowFormula& formula) {
  expect_matches_formula(*make_objective(section), groups, 0, over_rollouts(groups, formula));
}

TEST_P(PolicyGradientLoss, OfTokensIsItsFormula) {
  expect_matches(section(), rollouts(),
                 [](const Rollout& one) { return one.clip(one.token_ratio()); });
}

TEST_P(PolicyGradientLoss, OfExamplesIsItsFormula) {
  ObjectiveSection of_examples = section();
  of_examples.ratio = RatioLevel::kExample;
  RandomGroups groups = rollouts();
  expect_matches(of_examples, groups,
                 [](const Rollout& one) { return one.clip(one.example_ratio()); });
  of_examples.clip_low = of_examples.clip_high = 0.01;  // most are clipped
  expect_matches(of_examples, groups, [](const Rollout& one) {
    const at::Tensor ratio = one.example_ratio();
    return -one.weight *
           at::minimum(ratio * one.advantage, at::clamp(ratio, 0.99, 1.01) * one.advantage);
  });
}

TEST_P(PolicyGradientLoss, OfCispoIsItsFormula) {
  ObjectiveSection cispo = section();
  cispo.policy_loss = PolicyLoss::kCispo;
  const RandomGroups groups = rollouts();
  expect_matches(cispo, groups, [](const Rollout& one) {
    const at::Tensor factor = at::clamp(one.token_ratio().detach(), 0.8, 1.3);
    return -one.weight * factor * one.advantage * one.log_probs;
  });
  cispo.ratio = RatioLevel::kExample;
  expect_matches(cispo, groups, [](const Rollout& one) {
    const at::Tensor factor = at::clamp(one.example_ratio().detach(), 0.8, 1.3);
    return -one.weight * factor * one.advantage * one.log_probs;
  });
}

TEST_P(PolicyGradientLoss, AddsTheDivergenceFromTheReference) {
  ObjectiveSection with_divergence = section();
  with_divergence.beta = 0.4;
  expect_matches(with_divergence, rollouts(), [](const Rollout& one) {
    const at::Tensor log_ratio = one.reference - one.log_probs;
    return one.clip(one.token_ratio()) + 0.4 * (at::exp(log_ratio) - log_ratio - 1);
  });
}

TEST_P(PolicyGradientLoss, WithoutOldLogProbsIsThePolicyGradient) {
  RandomGroups groups = rollouts();
  groups.batch.groups.columns.erase("old_log_prob");
  for (const RatioLevel level : {RatioLevel::kToken, RatioLevel::kExample}) {
    ObjectiveSection on_policy = section();
    on_policy.ratio = level;
    expect_matches(on_policy, groups, [level](const Rollout& one) {
      return one.clip(level == RatioLevel::kToken ? one.token_ratio() : one.example_ratio());
    });
  }
}

TEST_P(PolicyGradientLoss, WithoutWeightsHasWeightsOf1) {
  RandomGroups groups = rollouts();
  groups.batch.groups.columns.erase("weight");
  expect_matches(section(), groups, [](const Rollout& one) { return one.clip(one.token_ratio()); });
}

TEST_P(PolicyGradientLoss, RefusesABatchWithoutAdvantages) {
  RandomGroups groups = rollouts();
  groups.batch.groups.columns.erase("advantage");
  EXPECT_THROW(make_objective(section())->evaluate(groups.batch, groups.row_losses), Error);
}

// Ratios 1, 0.5, 2, 0.5, 2 of five examples with one row.
TEST_P(PolicyGradientLoss, CountsRowsThatAreClipped) {
  const OperatorCase on{GetParam().device, at::kFloat, 0};
  RandomGroups groups =
      random_groups(GetParam(), {1, 1, 1, 1, 1}, std::vector<GroupRole>(5, GroupRole::kDesirable));
  const auto floats = [&](const std::vector<float>& values) {
    return at::tensor(values, at::TensorOptions(at::kFloat)).to(on.device);
  };
  groups.row_losses.fill_(1);
  auto& columns = groups.batch.groups.columns;
  columns["advantage"] = floats({1, 1, 1, -2, -2});
  columns["old_log_prob"] = -1 - floats({1, 0.5, 2, 0.5, 2}).log();
  const auto clip = make_objective(section());
  EXPECT_NEAR(statistic(*clip, groups, "advantage"), -0.2, 1e-6);
  EXPECT_NEAR(statistic(*clip, groups, "ratio"), 1.2, 1e-6);
  EXPECT_NEAR(statistic(*clip, groups, "log_prob"), -1, 1e-6);
  EXPECT_DOUBLE_EQ(statistic(*clip, groups, "clipped_high"), 0.2);
  EXPECT_DOUBLE_EQ(statistic(*clip, groups, "clipped_low"), 0.2);
  ObjectiveSection cispo = section();
  cispo.policy_loss = PolicyLoss::kCispo;
  EXPECT_DOUBLE_EQ(statistic(*make_objective(cispo), groups, "clipped_high"), 0.4);
}

}  // namespace
}  // namespace packtrain::policy_test
