// Tests which checkpoints are kept for their validation loss.
#include "training/evaluation/best_losses.h"

#include <gtest/gtest.h>

#include <cmath>

namespace packtrain {
namespace {

TEST(BestLosses, AreTheLowestOfTheRun) {
  BestLosses best(2, {});
  EXPECT_TRUE(best.add(1, 5.0));
  EXPECT_TRUE(best.add(2, 6.0));
  EXPECT_FALSE(best.add(3, 7.0));
  EXPECT_TRUE(best.add(4, 4.0));
  EXPECT_EQ(best.lowest(), (std::vector<double>{4.0, 5.0}));
  EXPECT_FALSE(best.add(5, 5.0)) << "no better than what there is";
}

TEST(BestLosses, KnowTheLossOfTheWeightsAsTheyAre) {
  BestLosses best(0, {});
  EXPECT_FALSE(best.after(3).has_value());
  EXPECT_FALSE(best.add(3, 2.5)) << "none is asked for";
  EXPECT_EQ(best.after(3), 2.5);
  EXPECT_FALSE(best.after(4).has_value());
}

TEST(BestLosses, ContinueFromThoseOfTheCheckpoint) {
  BestLosses best(1, {2.0, 3.0});
  EXPECT_EQ(best.lowest(), std::vector<double>{2.0});
  EXPECT_FALSE(best.add(7, 2.5));
  EXPECT_TRUE(best.add(8, 1.5));
}

TEST(BestLosses, AreNeverNumbersThatAreNotFinite) {
  BestLosses best(1, {});
  EXPECT_FALSE(best.add(1, std::nan("")));
  EXPECT_FALSE(best.add(1, -INFINITY));
  EXPECT_FALSE(best.after(1).has_value());
}

}  // namespace
}  // namespace packtrain
