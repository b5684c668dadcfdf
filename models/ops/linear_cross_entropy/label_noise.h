// The random numbers of sample_labels.h, on host and device.
#pragma once

#include <cstdint>

#include "framework/core/philox.h"

namespace packtrain {

inline constexpr int kLabelNoiseGroup = 4;  // ids that share one call of Philox

// Random words of the ids 4 g .. 4 g + 3 of a row.
constexpr RandomWords label_noise(std::int64_t row_seed, std::int64_t group) {
  constexpr std::uint64_t kKey = 0x4c6162656c734772;
  return philox(static_cast<std::uint64_t>(group), static_cast<std::uint64_t>(row_seed), kKey);
}

// Uniform in (0, 1]. 1 is the result of rounding, and of 128 words in 2^32.
constexpr float uniform_noise(std::uint32_t word) {
  return (static_cast<float>(word) + 0.5F) * 0x1p-32F;
}

// -log(1 - u), exponentially distributed. A small u decides which id wins. 1 - u would round it, so
// that the first terms of the series are taken for it.
template <typename Log>
constexpr float exponential_noise(std::uint32_t word, const Log& log) {
  const float u = uniform_noise(word);
  const float series = u * (1.0F + u * (0.5F + u * (1.0F / 3.0F + u * (0.25F + u * 0.2F))));
  return u < 0x1p-4F ? series : -log(1.0F - u);
}

}  // namespace packtrain
