// The kernels of weights in 8-bit floats. `stream` is a cudaStream_t. All throw Error(kDevice) when
// a launch fails.
#pragma once

#include <cstdint>

namespace packtrain {

// `scales` [count, stride] of `amax` [count], bits of float32.
void launch_fp8_weight_scales(const std::uint32_t* amax, float* scales, std::int64_t count,
                              std::int64_t stride, void* stream);

// `columns` [num_columns, num_rows] of `codes` [num_rows, num_columns], multiples of 16; both begin
// at multiples of 16 bytes.
void launch_fp8_transpose(const std::uint8_t* codes, std::uint8_t* columns, std::int64_t num_rows,
                          std::int64_t num_columns, void* stream);

}  // namespace packtrain
