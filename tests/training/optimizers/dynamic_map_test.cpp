// The codes of 8-bit moments: the map's numbers, and the nearest one of any number.
#include "training/optimizers/dynamic_map.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <set>

namespace packtrain {
namespace {

std::uint8_t nearest_code(bool has_sign, float x) {
  static const CodeTable with_sign = code_table(true), without = code_table(false);
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return has_sign ? code_of_bits<true>(with_sign, bits) : code_of_bits<false>(without, bits);
}

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
    for (int i = 0; i <= 200'000; ++i) {
      const double part = i / 200'000.0;
      for (const double x : {part, std::pow(10.0, -8 * part), has_sign ? -part : part}) {
        const auto value = static_cast<float>(x);
        const float found = map[nearest_code(has_sign, value)];
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
      EXPECT_EQ(nearest_code(has_sign, map[static_cast<std::size_t>(code)]), code);
    }
  }
}

TEST(DynamicMap, ASecondMomentAboveZeroStaysAboveZero) {
  EXPECT_EQ(nearest_code(/*has_sign=*/false, 1e-9F), 1);
  EXPECT_EQ(nearest_code(/*has_sign=*/false, 0), 0);
}

TEST(DynamicMap, WhatIsNoNumberBecomesZero) {
  for (const bool has_sign : {true, false}) {
    EXPECT_EQ(nearest_code(has_sign, std::numeric_limits<float>::quiet_NaN()), zero_code(has_sign));
  }
}

}  // namespace
}  // namespace packtrain
