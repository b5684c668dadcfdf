// The layout of weights that are stored as 8-bit floats.
#pragma once

#include <cstdint>

namespace packtrain {

// The codes (e4m3) of all elements in their order. 16 bytes follow them: the scale of ops/fp8,
// which is float32 [2], and unused bytes. A product reads both where they are. So the number of
// elements is a multiple of 16, and parameters begin at multiples of 16 bytes.
inline constexpr std::int64_t kFp8ScaleBytes = 16;

constexpr std::int64_t num_fp8_bytes(std::int64_t numel) {
  return numel + kFp8ScaleBytes;
}

}  // namespace packtrain
