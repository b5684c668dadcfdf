#include "training/comparison/interpolation.h"

#include <gtest/gtest.h>

#include <array>

namespace packtrain {
namespace {

constexpr std::array<CurvePoint, 3> kCurve = {{{2, 10}, {4, 6}, {8, 4}}};

TEST(Interpolation, IsLinearBetweenTwoPoints) {
  EXPECT_DOUBLE_EQ(*interpolate(kCurve, 3), 8);
  EXPECT_DOUBLE_EQ(*interpolate(kCurve, 7), 4.5);
}

TEST(Interpolation, IsTheValueAtAPoint) {
  for (const CurvePoint& point : kCurve) EXPECT_EQ(interpolate(kCurve, point.x), point.y);
}

TEST(Interpolation, NeverContinuesACurve) {
  EXPECT_FALSE(interpolate(kCurve, 1.9));
  EXPECT_FALSE(interpolate(kCurve, 8.1));
  EXPECT_FALSE(interpolate({}, 1));
}

}  // namespace
}  // namespace packtrain
