#include "training/checkpoint/mxfp4.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

namespace packtrain {
namespace {

// The eight magnitudes of E2M1: subnormals of 0.5, then 1.m x 2^(e - 1).
float e2m1(unsigned code) {
  const unsigned exponent = (code >> 1) & 3;
  const auto mantissa = static_cast<float>(code & 1);
  const float magnitude =
      exponent == 0 ? mantissa / 2 : (1 + mantissa / 2) * static_cast<float>(1U << (exponent - 1));
  return (code & 8) != 0 ? -magnitude : magnitude;
}

// Two blocks with every pair of neighbours' codes rising, of scales 2 and 1/8.
struct Codes {
  std::array<std::byte, 32> blocks{};
  std::array<std::byte, 2> scales{std::byte{128}, std::byte{124}};

  Codes() {
    for (unsigned i = 0; i < 32; ++i) blocks[i] = std::byte(((2 * i + 1) % 16) << 4 | (2 * i) % 16);
  }
};

TEST(Mxfp4, EveryCodeIsItsNumberTimesItsBlocksScale) {
  const Codes codes;
  std::array<float, 64> values{};
  decode_mxfp4(codes.blocks, codes.scales, 0, values);
  for (unsigned i = 0; i < 64; ++i) {
    EXPECT_EQ(values[i], e2m1(i % 16) * (i < 32 ? 2.0F : 0.125F)) << i;
  }
}

TEST(Mxfp4, AnyRangeIsThatPartOfTheWhole) {
  const Codes codes;
  std::array<float, 64> whole{};
  decode_mxfp4(codes.blocks, codes.scales, 0, whole);
  for (std::size_t first = 0; first < 64; ++first) {
    for (std::size_t count = 0; first + count <= 64; ++count) {
      std::vector<float> values(count);
      decode_mxfp4(codes.blocks, codes.scales, static_cast<std::int64_t>(first), values);
      EXPECT_TRUE(std::equal(values.begin(), values.end(), whole.begin() + first))
          << first << ", " << count;
    }
  }
}

TEST(Mxfp4, ScalesReachTheEndsOfFloat32AndBeyondThemIsNaN) {
  const std::array<std::byte, 16> ones = [] {
    std::array<std::byte, 16> bytes{};
    bytes.fill(std::byte{0x22});
    return bytes;
  }();
  const auto one_times = [&](std::uint8_t scale) {
    const std::array<std::byte, 1> scales{std::byte{scale}};
    std::array<float, 1> value{};
    decode_mxfp4(ones, scales, 0, value);
    return value[0];
  };
  EXPECT_EQ(one_times(0), 0x1p-127F);
  EXPECT_EQ(one_times(127), 1.0F);
  EXPECT_EQ(one_times(254), 0x1p127F);
  EXPECT_TRUE(std::isnan(one_times(255)));
}

}  // namespace
}  // namespace packtrain
