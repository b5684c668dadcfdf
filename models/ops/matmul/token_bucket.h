// Numbers of tokens of packs differ a little from step to step. A choice made for one number is
// used for all numbers within a sixteenth of it.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace packtrain {

// Returns the largest number of tokens (> 0) of the bucket, which represents it.
inline std::int64_t token_bucket(std::int64_t num_tokens) {
  constexpr std::int64_t kMinStep = 64;
  const auto power =
      static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(num_tokens)));
  const std::int64_t step = std::max(kMinStep, power / 16);
  return (num_tokens + step - 1) / step * step;
}

}  // namespace packtrain
