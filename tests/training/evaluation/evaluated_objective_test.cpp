// Which loss an evaluation has, and whether examples share rows.
#include "training/evaluation/evaluated_objective.h"

#include <gtest/gtest.h>

namespace packtrain {
namespace {

TEST(EvaluatedObjective, OfNextTokensSharesNoPrefix) {
  const EvaluatedObjective found = evaluated_objective(Config{});
  EXPECT_EQ(found.objective, nullptr);
  EXPECT_FALSE(found.share_prefixes) << "models that cannot share rows are evaluated";
}

}  // namespace
}  // namespace packtrain
