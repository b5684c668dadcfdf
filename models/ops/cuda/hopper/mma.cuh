// Operands of mma.sync (cuda/matrix_fragments.cuh) that ldmatrix reads from boxes that TMA wrote
// with its 128-byte swizzle.
#pragma once

#include <cstdint>

#include "models/ops/cuda/hopper/barrier.cuh"
#include "models/ops/cuda/hopper/fragment.cuh"
#include "models/ops/cuda/matrix_fragments.cuh"

namespace packtrain::device {

// The address that this lane gives to load_matrices(), for the 16 x 16 elements at (row, 8 chunk)
// of a box. The words are those of a left operand.
__device__ inline std::uint32_t left_place(std::uint32_t box, int row, int chunk) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  return box + swizzled_offset(row + lane % 16, chunk + lane / 16);
}
// The same for load_transposed(), which gives words of the transposed elements as a left operand.
__device__ inline std::uint32_t transposed_left_place(std::uint32_t box, int row, int chunk) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  return box + swizzled_offset(row + lane / 16 * 8 + lane % 8, chunk + lane / 8 % 2);
}

}  // namespace packtrain::device
