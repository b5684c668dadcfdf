// Fragments of mma.sync m16n8k16 in bfloat16, and tiles in shared memory that ldmatrix reads. For
// GPUs from sm_80 on.
//
// Lane l has g = l / 4 and q = l % 4. A left operand (16 x 16) has four words. Their rows are g,
// g + 8, g, g + 8, and their columns 2 q, 2 q, 2 q + 8, 2 q + 8 and the next. A right operand (16 x
// 8) has two words: rows 2 q and 2 q + 8 and the next, of column g. Sums (16 x 8): row g, columns 2
// q and the next, then the same of row g + 8.
#pragma once

#include <cstdint>

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

// sums += left right, 16 x 16 times 16 x 8.
__device__ inline void mma_16x8(float (&sums)[4], const std::uint32_t (&left)[4],
                                const std::uint32_t (&right)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right[0]), "r"(right[1]));
}

// Rows of `kWidth` bfloat16 in shared memory, in chunks of 16 bytes. Eight consecutive rows of a
// chunk are in different banks. An exclusive or does that where a row fills all banks, else one
// more chunk a row.
template <int kWidth>
struct MatrixTile {
  static_assert(kWidth % 16 == 0, "two chunks a step");
  static constexpr bool kSwizzled = kWidth % 64 == 0;
  static constexpr int kChunks = kWidth / 8;  // of a row
  static constexpr int kRowBytes = (kChunks + (kSwizzled ? 0 : 1)) * 16;

  __device__ static std::uint32_t place(int row, int chunk) {
    const int stored = kSwizzled ? chunk ^ (row & 7) : chunk;
    return static_cast<std::uint32_t>(row * kRowBytes + stored * 16);
  }

  // Each gives this lane's address for the 16 x 16 elements at (row, 8 chunk) of a tile.
  // Rows of a left operand, or columns (of the product) of two right operands that follow: words
  // 0 and 1, then 2 and 3.
  __device__ static std::uint32_t left(std::uint32_t tile, int row, int chunk) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    return tile + place(row + lane % 16, chunk + lane / 16);
  }
  __device__ static std::uint32_t right(std::uint32_t tile, int row, int chunk) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    return tile + place(row + lane / 16 * 8 + lane % 8, chunk + lane / 8 % 2);
  }
  // For load_transposed(): a tile's rows are the product's inner dimension.
  __device__ static std::uint32_t transposed_right(std::uint32_t tile, int row, int chunk) {
    return left(tile, row, chunk);
  }
  __device__ static std::uint32_t transposed_left(std::uint32_t tile, int row, int chunk) {
    return right(tile, row, chunk);
  }
};

}  // namespace packtrain::device
