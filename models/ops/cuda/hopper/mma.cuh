// Products of one warp (mma.sync m16n8k16) with operands that ldmatrix reads from boxes that TMA
// wrote with its 128-byte swizzle.
//
// Lane l has g = l / 4 and q = l % 4. Left words: rows g, g + 8, g, g + 8 and columns 2 q, 2 q,
// 2 q + 8, 2 q + 8, and the next column. Right words: rows 2 q and 2 q + 8, and the next row, of
// column g. Sums: row g, columns 2 q and the next, then row g + 8.
#pragma once

#include <cstdint>

#include "models/ops/cuda/hopper/barrier.cuh"
#include "models/ops/cuda/hopper/fragment.cuh"

namespace packtrain::device {

// Loads four 8 x 8 matrices of bfloat16. Lane l gives the address of row l % 8 of matrix l / 8.
// Word m holds row lane / 4, columns 2 (lane % 4) and the next one, of matrix m.
__device__ inline void load_matrices(std::uint32_t address, std::uint32_t (&words)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(address)
               : "memory");
}
// The same of the transposed matrices.
__device__ inline void load_transposed(std::uint32_t address, std::uint32_t (&words)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(address)
               : "memory");
}

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

// sums += left right, 16 x 16 times 16 x 8.
__device__ inline void mma_16x8(float (&sums)[4], const std::uint32_t (&left)[4],
                                const std::uint32_t (&right)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right[0]), "r"(right[1]));
}

}  // namespace packtrain::device
