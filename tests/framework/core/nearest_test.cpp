#include "framework/core/nearest.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace packtrain {
namespace {

const std::vector<std::string> kNames = {"train", "plan", "prepare", "resume"};

TEST(NearestName, CountsASwapOfNeighboursAsOneChange) {
  EXPECT_EQ(nearest_name("trian", kNames), "train");
  EXPECT_EQ(nearest_name("rtiiin", kNames), std::nullopt);
}

TEST(NearestName, ForgivesTwoChangesAndAThirdOfALongName) {
  EXPECT_EQ(nearest_name("pln", kNames), "plan");
  EXPECT_EQ(nearest_name("prepartion", kNames), std::nullopt);
  EXPECT_EQ(nearest_name("prepared_", kNames), "prepare");
}

TEST(NearestName, NeverOffersANameWithNothingInCommon) {
  EXPECT_EQ(nearest_name("xy", std::vector<std::string>{"ab"}), std::nullopt);
  EXPECT_EQ(nearest_name("", kNames), std::nullopt);
  EXPECT_EQ(nearest_name("train", {}), std::nullopt);
}

TEST(NearestName, LooksAtNoCandidateThatIsTooLongOrTooShort) {
  const std::string endless(100'000'000, 'a');
  EXPECT_EQ(nearest_name(endless, kNames), std::nullopt);
  EXPECT_EQ(nearest_name("train", std::vector<std::string>{endless, "trains"}), "trains");
}

TEST(NearestName, TakesTheFirstOfEquals) {
  EXPECT_EQ(nearest_name("cat", std::vector<std::string>{"bat", "rat"}), "bat");
}

}  // namespace
}  // namespace packtrain
