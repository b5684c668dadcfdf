// The codes of 8-bit moments: the map's numbers, and the nearest one of any number.
#include "training/optimizers/dynamic_map.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

namespace packtrain {
namespace {

TEST(DynamicMap, HasAnotherNumberForEachCodeInTheOrderOfCodes) {
  for (const bool has_sign : {true, false}) {
    const DynamicMap map = dynamic_map(has_sign);
    EXPECT_TRUE(std::ranges::is_sorted(map));
    EXPECT_EQ(std::set<float>(map.begin(), map.end()).size(), 256U);
    EXPECT_EQ(map[static_cast<std::size_t>(zero_code(has_sign))], 0);
    EXPECT_EQ(map[255], 1);
  }
}

// By create_dynamic_map() of bitsandbytes 0.50.
TEST(DynamicMap, HasTheNumbersThatBitsandbytesPublishes) {
  const DynamicMap with_sign = dynamic_map(true);
  EXPECT_NEAR(with_sign[0], -0.99297, 1e-5);
  EXPECT_NEAR(with_sign[128], 5.5e-7, 1e-12);
  EXPECT_NEAR(with_sign[254], 0.99297, 1e-5);
  const DynamicMap without = dynamic_map(false);
  EXPECT_NEAR(without[1], 3.25e-7, 1e-12);
  EXPECT_NEAR(without[2], 7.75e-7, 1e-12);
  EXPECT_NEAR(without[254], 0.99648, 1e-5);
}

TEST(DynamicMap, TheCodeOfANumberIsThatOfTheNearest) {
  for (const bool has_sign : {true, false}) {
    const DynamicMap map = dynamic_map(has_sign);
    const DecadeTable table = decade_table(has_sign);
    for (int i = 0; i <= 200'000; ++i) {
      const double part = i / 200'000.0;
      for (const double x : {part, std::pow(10.0, -8 * part), has_sign ? -part : part}) {
        const auto value = static_cast<float>(x);
        const float found = map[nearest_code(table, value)];
        const bool is_kept_above_zero = !has_sign && value > 0;
        const auto nearest =
            std::ranges::min_element(map.begin() + (is_kept_above_zero ? 1 : 0), map.end(), {},
                                     [&](float number) { return std::abs(number - value); });
        ASSERT_NEAR(std::abs(found - value), std::abs(*nearest - value), 2e-7 * std::abs(value))
            << value << " became " << found;
        if (i % 50 != 0) break;
      }
    }
  }
}

TEST(DynamicMap, EachNumberHasItsOwnCode) {
  for (const bool has_sign : {true, false}) {
    const DynamicMap map = dynamic_map(has_sign);
    for (int code = 0; code < kCodes; ++code) {
      EXPECT_EQ(nearest_code(decade_table(has_sign), map[static_cast<std::size_t>(code)]), code);
    }
  }
}

TEST(DynamicMap, ASecondMomentAboveZeroStaysAboveZero) {
  const DecadeTable table = decade_table(/*has_sign=*/false);
  EXPECT_EQ(nearest_code(table, 1e-9F), 1);
  EXPECT_EQ(nearest_code(table, 0), 0);
}

TEST(DynamicMap, WhatIsNoNumberBecomesZero) {
  for (const bool has_sign : {true, false}) {
    EXPECT_EQ(nearest_code(decade_table(has_sign), std::numeric_limits<float>::quiet_NaN()),
              zero_code(has_sign));
  }
}

}  // namespace
}  // namespace packtrain
