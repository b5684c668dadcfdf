#include "training/plan/training_tokens.h"

#include <gtest/gtest.h>

namespace packtrain {
namespace {

bool has(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

TrainingTokens with_ratio(double ratio, double num_epochs = 1) {
  return {.tokens = static_cast<std::int64_t>(ratio * 1000),
          .num_epochs = num_epochs,
          .num_parameters = 1000};
}

TEST(TrainingTokens, AreThoseOfAllStepsOfTheRun) {
  const TrainingTokens training = training_tokens(600, 6, 8, 20);
  EXPECT_EQ(training.tokens, 2000);
  EXPECT_DOUBLE_EQ(training.num_epochs, 2.5);
}

TEST(TrainingTokens, OfNoStepsAreNone) {
  EXPECT_EQ(training_tokens(0, 0, 0, 0).tokens, 0);
  EXPECT_EQ(TrainingTokens{}.per_parameter(), 0);
}

TEST(TrainingTokens, AdviceDependsOnTheRatio) {
  EXPECT_TRUE(has(describe(with_ratio(4.9)), "4.9 in 1.00 epochs, below 5"));
  EXPECT_TRUE(has(describe(with_ratio(5)), "between 5"));
  EXPECT_TRUE(has(describe(with_ratio(20)), "between 5"));
  EXPECT_TRUE(has(describe(with_ratio(21)), "above 20"));
}

TEST(TrainingTokens, ManyEpochsAreNamed) {
  EXPECT_FALSE(has(describe(with_ratio(10, 4)), "add little"));
  EXPECT_TRUE(has(describe(with_ratio(10, 4.5)), "more than 4 epochs add little"));
}

TEST(TrainingTokens, OfATrainedModelHaveNoAdvice) {
  TrainingTokens training = with_ratio(0.25, 3);
  training.from_random_weights = false;
  EXPECT_EQ(describe(training), "0.25 in 3.00 epochs of a trained model");
}

}  // namespace
}  // namespace packtrain
