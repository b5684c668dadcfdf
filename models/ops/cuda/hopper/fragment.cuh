// Accumulator fragments (wgmma.cuh) on their way to memory: transposed over the threads of a row,
// or stored to shared memory as TMA reads it.
#pragma once

#include <cstdint>

#include "framework/device/cuda/bfloat16.cuh"
#include "models/ops/cuda/hopper/barrier.cuh"

namespace packtrain::device {

// Transposes words over four neighbouring threads: thread t ends with word t of each of them. A
// thread then has elements that are contiguous in memory, for accesses of 16 bytes. Its own
// inverse.
__device__ inline void shuffle_words(std::uint32_t (&words)[4]) {
  const bool upper = threadIdx.x % 4 >= 2;
  const bool odd = threadIdx.x % 2 == 1;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const std::uint32_t got = __shfl_xor_sync(~0U, upper ? words[i] : words[i + 2], 2);
    words[i] = upper ? got : words[i];
    words[i + 2] = upper ? words[i + 2] : got;
  }
#pragma unroll
  for (int i = 0; i < 4; i += 2) {
    const std::uint32_t got = __shfl_xor_sync(~0U, odd ? words[i] : words[i + 1], 1);
    words[i] = odd ? got : words[i];
    words[i + 1] = odd ? words[i + 1] : got;
  }
}

// Stores four 8 x 8 matrices of bfloat16. Lane l gives the address of row l % 8 of matrix l / 8.
// Word m holds row lane / 4, columns 2 (lane % 4) and the next one, of matrix m.
__device__ inline void store_matrices(std::uint32_t address, const std::uint32_t (&words)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),
               "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3])
               : "memory");
}

// Byte offset of 16 bytes, the `chunk`-th of a row, in a box of 128-byte rows with TMA's swizzle.
__device__ inline std::uint32_t swizzled_offset(int row, int chunk) {
  return static_cast<std::uint32_t>(row * 128 + ((chunk ^ (row % 8)) << 4));
}

}  // namespace packtrain::device
