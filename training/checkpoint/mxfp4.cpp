#include "training/checkpoint/mxfp4.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "models/families/weight_map.h"

namespace packtrain {
namespace {

constexpr std::array<float, 16> kElements = {0.0F,  0.5F,  1.0F,  1.5F,  2.0F,  3.0F,
                                             4.0F,  6.0F,  -0.0F, -0.5F, -1.0F, -1.5F,
                                             -2.0F, -3.0F, -4.0F, -6.0F};

float scale_of(std::byte code) {
  constexpr int kBias = 127;
  if (code == std::byte{255}) return std::numeric_limits<float>::quiet_NaN();
  return std::ldexp(1.0F, std::to_integer<int>(code) - kBias);
}

float element(std::byte pair, bool is_second) {
  return kElements[std::to_integer<std::size_t>(is_second ? pair >> 4 : pair & std::byte{15})];
}

}  // namespace

void decode_mxfp4(std::span<const std::byte> blocks, std::span<const std::byte> scales,
                  std::int64_t first, std::span<float> values) {
  const auto begin = static_cast<std::size_t>(first);
  constexpr auto kBlock = static_cast<std::size_t>(kMxfp4Block);
  const std::size_t end = begin + values.size();
  for (std::size_t next = begin; next < end;) {
    const std::size_t block = next / kBlock;
    const float scale = scale_of(scales[block]);
    for (const std::size_t last = std::min(end, (block + 1) * kBlock); next < last; ++next) {
      values[next - begin] = element(blocks[next / 2], next % 2 == 1) * scale;
    }
  }
}

}  // namespace packtrain
