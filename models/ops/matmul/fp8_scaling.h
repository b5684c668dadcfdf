// Which numbers of a matrix of 8-bit floats share a scale. The names are those of PyTorch's
// scaled_mm. Codes stand for code * scale.
#pragma once

#include <cstdint>

namespace packtrain {

enum class Fp8Scaling : std::uint8_t {
  kTensorWise,
  kBlockWise1x128,    // 128 of a row, along the summed dimension
  kBlockWise128x128,  // 128 of 128 rows
};

constexpr std::int64_t kFp8BlockSize = 128;
constexpr std::int64_t num_fp8_blocks(std::int64_t size) {
  return (size + kFp8BlockSize - 1) / kFp8BlockSize;
}
// cuBLASLt reads rows of whole 16 bytes of the scales of 128 x 128 blocks.
constexpr std::int64_t fp8_scale_stride(std::int64_t num_blocks) {
  constexpr std::int64_t kWhole = 4;
  return (num_blocks + kWhole - 1) / kWhole * kWhole;
}

}  // namespace packtrain
