#include "samplers/statistics.h"

#include <gtest/gtest.h>

namespace packtrain::statistics_test {
namespace {

Piece piece(std::int32_t length) {
  return {.example = 0, .begin = 0, .length = length, .continues = false};
}

TEST(PlanStatistics, AreThoseOfAWorkedExample) {
  StepPlan plan;
  // Tokens: micro-batch 0 has 30 and 10, micro-batch 1 has 20 and none.
  plan.ranks = {{{piece(10), piece(20)}, {}}, {{piece(10)}, {piece(20)}}};
  const CostModel cost{.linear = 1.0, .quadratic = 0.1, .constant = 5.0};
  const PlanStatistics statistics = plan_statistics(plan, cost, 40, 16);
  EXPECT_DOUBLE_EQ(statistics.fill, 60.0 / 160);
  EXPECT_DOUBLE_EQ(statistics.padding_fraction, 1 - 60.0 / (32 + 16 + 16 + 32));
  EXPECT_EQ(statistics.num_padding_tokens, 32 + 16 + 16 + 32 - 60);
  EXPECT_DOUBLE_EQ(statistics.token_imbalance, (30.0 + 20) / (60.0 / 2));
  // Costs: 10 -> 20, 20 -> 60, each micro-batch + 5.
  EXPECT_DOUBLE_EQ(statistics.cost_imbalance, (85.0 + 65) / ((85.0 + 25 + 5 + 65) / 2));
}

TEST(PlanStatistics, CountPadsToTheLongestAsPaddingThatCosts) {
  StepPlan plan;
  plan.ranks = {{{piece(10), piece(20)}}, {{piece(10)}}};
  const CostModel cost{.linear = 1.0, .quadratic = 0.1, .constant = 5.0};
  const PlanStatistics statistics = plan_statistics(plan, cost, 40, 16, true);
  EXPECT_DOUBLE_EQ(statistics.fill, 40.0 / 80);
  EXPECT_DOUBLE_EQ(statistics.padding_fraction, 1 - 40.0 / (48 + 16));  // 40 and 10 rows
  EXPECT_EQ(statistics.num_padding_tokens, 48 + 16 - 40);
  EXPECT_DOUBLE_EQ(statistics.token_imbalance, 30.0 / 20);
  EXPECT_DOUBLE_EQ(statistics.cost_imbalance, 125.0 / ((125.0 + 25) / 2));
}

TEST(PlanStatistics, ASlowRankTakesLongerForTheSameCost) {
  StepPlan plan;
  plan.ranks = {{{piece(10)}}, {{piece(30)}}};
  const std::vector<double> speeds = {0.5, 1.5};
  const PlanStatistics statistics = plan_statistics(plan, {}, 40, 16, false, speeds);
  EXPECT_DOUBLE_EQ(statistics.cost_imbalance, 1);
  EXPECT_DOUBLE_EQ(statistics.token_imbalance, 1.5);
}

TEST(PlanStatistics, AreNeutralForAPlanOfNothing) {
  const PlanStatistics statistics = plan_statistics({}, {}, 40, 16);
  EXPECT_EQ(statistics.fill, 0);
  EXPECT_EQ(statistics.token_imbalance, 1);
  EXPECT_EQ(statistics.padding_fraction, 0);
  EXPECT_EQ(statistics.num_padding_tokens, 0);
}

TEST(NumRows, RoundsUpAndIsNeverZero) {
  EXPECT_EQ(num_rows(0, 128), 128);
  EXPECT_EQ(num_rows(1, 128), 128);
  EXPECT_EQ(num_rows(128, 128), 128);
  EXPECT_EQ(num_rows(129, 128), 256);
  EXPECT_EQ(num_rows(0, 1), 1);
  EXPECT_EQ(num_rows(7, 1), 7);
}

}  // namespace
}  // namespace packtrain::statistics_test
