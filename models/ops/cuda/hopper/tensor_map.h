// What tensor copies (tma.cuh) are told of a matrix.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace packtrain {

struct MatrixExtent {
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t stride;  // elements from row to row, a multiple of 8
};

struct BoxExtent {
  int rows;
  int columns;  // 64: 128 bytes, swizzled in shared memory
};

// A bfloat16 matrix on the device that starts at a multiple of 16 bytes. The map is given to a
// kernel by value. Throws Error(kDevice) when the driver refuses it.
CUtensorMap make_bf16_tensor_map(const void* matrix, const MatrixExtent& extent,
                                 const BoxExtent& box);

}  // namespace packtrain
