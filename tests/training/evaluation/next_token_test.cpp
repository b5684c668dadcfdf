// Tests the choice of the next token from logits.
#include "training/evaluation/next_token.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

namespace packtrain {
namespace {

// Returns how often each id is drawn by numbers spread evenly over [0, 1).
std::vector<double> shares(const std::vector<float>& logits, const NextTokenOptions& options) {
  constexpr int kNumDraws = 10'000;
  std::vector<double> counts(logits.size());
  for (int draw = 0; draw < kNumDraws; ++draw) {
    ++counts[choose_token(logits, options, (draw + 0.5) / kNumDraws)];
  }
  for (double& count : counts) count /= kNumDraws;
  return counts;
}

TEST(NextToken, IsTheLikeliestWithoutATemperature) {
  EXPECT_EQ(choose_token(std::array{-1.0F, 3.0F, 2.0F}, {}, 0.99), 1);
  EXPECT_EQ(choose_token(std::array{-1.0F}, {}, 0), 0);
}

TEST(NextToken, IsTheLowestOfEqualOnes) {
  EXPECT_EQ(choose_token(std::array{1.0F, 2.0F, 2.0F}, {}, 0.5), 1);
}

TEST(NextToken, IsDrawnWithTheProbabilitiesOfTheSoftmax) {
  const std::vector<float> logits = {std::log(0.2F), std::log(0.5F), std::log(0.3F)};
  const std::vector<double> found = shares(logits, {.temperature = 1});
  EXPECT_NEAR(found[0], 0.2, 1e-3);
  EXPECT_NEAR(found[1], 0.5, 1e-3);
  EXPECT_NEAR(found[2], 0.3, 1e-3);
}

TEST(NextToken, IsDrawnFromLogitsOverTheTemperature) {
  const std::vector<float> logits = {0, std::log(4.0F)};
  EXPECT_NEAR(shares(logits, {.temperature = 2})[1], 2.0 / 3, 1e-3) << "4^(1/2) to 1";
  EXPECT_NEAR(shares(logits, {.temperature = 0.5})[1], 16.0 / 17, 1e-3) << "4^2 to 1";
}

TEST(NextToken, IsOneOfTheLikeliestThatTogetherHaveTopP) {
  const std::vector<float> logits = {std::log(0.1F), std::log(0.5F), std::log(0.4F)};
  const std::vector<double> two = shares(logits, {.temperature = 1, .top_p = 0.8});
  EXPECT_EQ(two[0], 0);
  EXPECT_NEAR(two[1], 5.0 / 9, 1e-3);
  EXPECT_EQ(shares(logits, {.temperature = 1, .top_p = 0.3})[1], 1) << "at least one";
}

TEST(NextToken, OfLogitsThatAreNoNumbersIsTheLargestNumber) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const double temperature : {0.0, 1.0}) {
    EXPECT_EQ(choose_token(std::array{kNan, 1.0F, 2.0F}, {.temperature = temperature}, 0.5), 2);
    EXPECT_EQ(choose_token(std::array{kNan, kInf, 2.0F}, {.temperature = temperature}, 0.5), 1);
    EXPECT_EQ(choose_token(std::array{kNan, kNan}, {.temperature = temperature}, 0.5), 0);
  }
}

}  // namespace
}  // namespace packtrain
