// When a run that no longer gets better is to end.
#include "training/evaluation/early_stopping.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "framework/core/error.h"
#include "tests/helpers/temporary_folder.h"

namespace packtrain {
namespace {

// Evaluations until it is over; 0: never.
int num_evaluations(EarlyStopping stopping, const std::vector<double>& losses) {
  for (std::size_t i = 0; i < losses.size(); ++i) {
    stopping.add(static_cast<std::int64_t>(i) + 1, losses[i]);
    if (stopping.is_over()) return static_cast<int>(i) + 1;
  }
  return 0;
}

TEST(EarlyStopping, EndsAfterThatManyEvaluationsWithoutAnImprovement) {
  const std::vector<double> losses = {5, 4, 4.5, 4.2, 4.1, 1};
  EXPECT_EQ(num_evaluations(EarlyStopping(3, 0, ""), losses), 5);
  EXPECT_EQ(num_evaluations(EarlyStopping(4, 0, ""), losses), 0);
  EXPECT_EQ(num_evaluations(EarlyStopping(1, 0, ""), losses), 3);
}

TEST(EarlyStopping, NamesADamagedCheckpoint) {
  for (const char* state :
       {"{}", "3", "{\"lowest\": \"x\", \"lowest_step\": 1, \"num_without\": 0}"}) {
    const Error error = test::error_of([&] { EarlyStopping(2, 0, state); });
    EXPECT_EQ(error.category(), ErrorCategory::kCheckpoint) << state;
  }
}

TEST(EarlyStopping, IsOffWithoutPatience) {
  EXPECT_EQ(num_evaluations(EarlyStopping(0, 0, ""), {1, 2, 3, 4, 5}), 0);
}

TEST(EarlyStopping, TakesTheSameLossForNoImprovement) {
  EXPECT_EQ(num_evaluations(EarlyStopping(2, 0, ""), {3, 3, 3}), 3);
}

TEST(EarlyStopping, WantsTheLossToFallByTheDelta) {
  const std::vector<double> losses = {5, 4.9, 4.8, 4.7, 4.4};
  EXPECT_EQ(num_evaluations(EarlyStopping(3, 0.5, ""), losses), 4) << "all compared with 5";
  EXPECT_EQ(num_evaluations(EarlyStopping(4, 0.5, ""), losses), 0);
  EXPECT_EQ(num_evaluations(EarlyStopping(3, 0.05, ""), losses), 0);
}

TEST(EarlyStopping, TakesALossThatIsNotFiniteForNoImprovement) {
  EXPECT_EQ(num_evaluations(EarlyStopping(2, 0, ""), {std::nan(""), -INFINITY, 1}), 2);
  EXPECT_EQ(num_evaluations(EarlyStopping(2, 0, ""), {std::nan(""), 3, INFINITY, 2}), 0);
}

TEST(EarlyStopping, ContinuesWhereItWasSaved) {
  const std::vector<double> losses = {5, 0.1 + 0.2, 0.3 + 1e-9, 0.1 + 0.2, 9};
  for (std::size_t saved = 0; saved <= 3; ++saved) {
    EarlyStopping before(3, 1e-12, "");
    for (std::size_t i = 0; i < saved; ++i) before.add(static_cast<std::int64_t>(i) + 1, losses[i]);
    EarlyStopping after(3, 1e-12, before.state());
    EXPECT_EQ(after.state(), before.state());
    for (std::size_t i = saved; i < losses.size(); ++i) {
      EXPECT_FALSE(after.is_over()) << saved;
      after.add(static_cast<std::int64_t>(i) + 1, losses[i]);
    }
    EXPECT_TRUE(after.is_over()) << saved;
    EXPECT_NE(after.describe().find("after step 2"), std::string::npos) << after.describe();
  }
}

TEST(EarlyStopping, StaysOverWhenItIsLoadedAgainUnlessPatienceGrew) {
  EarlyStopping over(2, 0, "");
  for (int step = 1; step <= 3; ++step) over.add(step, step);
  EXPECT_TRUE(EarlyStopping(2, 0, over.state()).is_over());
  EXPECT_FALSE(EarlyStopping(3, 0, over.state()).is_over());
}

TEST(EarlyStopping, AStateThatParsesAndIsDamagedIsACheckpointError) {
  for (const char* damaged :
       {"null", "[]", "{}", R"({"lowest": "1", "lowest_step": 1, "num_without": 0})",
        R"({"lowest": 1, "lowest_step": 1.5, "num_without": 0})",
        R"({"lowest": 1, "lowest_step": -1, "num_without": 0})",
        R"({"lowest": true, "lowest_step": 1, "num_without": 0})",
        R"({"lowest": 1, "lowest_step": 1, "num_without": null})"}) {
    try {
      EarlyStopping(2, 0, damaged);
      ADD_FAILURE() << damaged;
    } catch (const Error& error) {
      EXPECT_EQ(error.category(), ErrorCategory::kCheckpoint) << damaged;
    }
  }
}

}  // namespace
}  // namespace packtrain
