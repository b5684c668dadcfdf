// The rank that all others wait for, found by times of their own.
#include "training/guards/straggler_detector.h"

#include <gtest/gtest.h>

namespace packtrain {
namespace {

TEST(Straggler, IsTheRankAndPhaseWithTheMostTimeBeyondTheMedian) {
  const std::vector<double> seconds = {0.1, 1.0, 0.1, 1.1, 0.1, 2.6, 0.2, 1.0, 0.1, 0.9};
  const Straggler found = find_straggler(seconds, 5, 10);
  EXPECT_EQ(found.rank, 2);
  EXPECT_EQ(found.phase, OwnTime::kCompute);
  EXPECT_NEAR(found.ratio, (1.2 + 1.6) / 1.2, 1e-12);
  EXPECT_NEAR(found.seconds_per_step, 0.16, 1e-12);
}

TEST(Straggler, OfDataIsDistinguishedFromOneOfCompute) {
  const Straggler found = find_straggler(std::vector<double>{0.1, 1.0, 0.1, 1.1, 3.1, 1.0}, 3, 1);
  EXPECT_EQ(found.rank, 2);
  EXPECT_EQ(found.phase, OwnTime::kData);
  EXPECT_GT(found.ratio, 3.0);
}

TEST(Straggler, IsNotMadeOfAPhaseThatHardlyCounts) {
  const Straggler found =
      find_straggler(std::vector<double>{1e-6, 1.0, 1e-6, 1.01, 1e-3, 1.0}, 3, 1);
  EXPECT_LT(found.ratio, 1.02);
}

TEST(Straggler, OfRanksAreEqualExceedsNothing) {
  EXPECT_EQ(find_straggler(std::vector<double>{0.5, 1.0, 0.5, 1.0}, 2, 1).ratio, 1.0);
  EXPECT_EQ(find_straggler(std::vector<double>(4, 0.0), 2, 1).ratio, 1.0);
}

}  // namespace
}  // namespace packtrain
