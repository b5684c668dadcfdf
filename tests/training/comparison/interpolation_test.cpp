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

TEST(FirstAtMost, IsOnTheLineThatFirstReachesTheValue) {
  const std::vector<CurvePoint> points = {{1, 5}, {2, 3}, {3, 4}, {4, 1}};
  EXPECT_DOUBLE_EQ(first_at_most(points, 4).value(), 1.5);
  EXPECT_DOUBLE_EQ(first_at_most(points, 5).value(), 1);
  EXPECT_DOUBLE_EQ(first_at_most(points, 2).value(), 3 + 2.0 / 3);
  EXPECT_FALSE(first_at_most(points, 0.5));
}

}  // namespace
}  // namespace packtrain
