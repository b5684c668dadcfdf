// Tensor maps: the description of a matrix in global memory for TMA copies (tma.cuh).
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
  int columns;  // 64: 128 bytes, so that a row of the box is one swizzled line
};

// Describes a bfloat16 matrix on the device that starts at a multiple of 16 bytes. Boxes are stored
// with the 128-byte swizzle. Kernels take the map by value, as a __grid_constant__ parameter.
// Throws Error(kDevice) when the driver refuses it.
CUtensorMap make_bf16_tensor_map(const void* matrix, const MatrixExtent& extent,
                                 const BoxExtent& box);

}  // namespace packtrain
