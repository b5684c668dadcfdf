// Row sums over several warps in blocks whose rows advance independently.
#pragma once

#include "models/ops/cuda/row_copies.cuh"

namespace packtrain::device {

// Sums over the threads of a row. Two buffers alternate, so that one barrier of the row's warps is
// enough. A thread that writes a buffer again has passed the other buffer's barrier. All readers of
// the first one have passed it too. Elements come in groups of four; those without a warp stay 0.
template <int K>
class RowReduction {
 public:
  static constexpr int kPlaces = kRowThreads / 16;
  using Places = float[2][K][kPlaces];

  // All threads of the block call it. It ends with a barrier.
  __device__ explicit RowReduction(Places& places)
      : places_(places),
        num_warps_(blockDim.x / 32),
        first_(threadIdx.y * ((num_warps_ + 3) / 4 * 4)) {
    const int num_threads = blockDim.x * blockDim.y;
    for (int i = threadIdx.y * blockDim.x + threadIdx.x; i < 2 * K * kPlaces; i += num_threads) {
      places[0][0][i] = 0;
    }
    __syncthreads();
  }

  __device__ void sum(float (&values)[K]) {
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) {
#pragma unroll
      for (int k = 0; k < K; ++k) values[k] += __shfl_xor_sync(~0U, values[k], offset);
    }
    if (num_warps_ == 1) return;
    float(&places)[K][kPlaces] = places_[turn_];
    if (threadIdx.x % 32 == 0) {
#pragma unroll
      for (int k = 0; k < K; ++k) places[k][first_ + threadIdx.x / 32] = values[k];
    }
    // Named barrier of this row's threads alone; barrier 0 is that of __syncthreads(). Rows of
    // several warps are at most 8 a block, so barriers 1 to 8 are used.
    asm volatile("bar.sync %0, %1;" ::"r"(threadIdx.y + 1), "r"(blockDim.x) : "memory");
#pragma unroll
    for (int k = 0; k < K; ++k) values[k] = 0;
#pragma unroll 1
    for (int warp = 0; warp < num_warps_; warp += 4) {
#pragma unroll
      for (int k = 0; k < K; ++k) {
        float four[4];
        load(&places[k][first_ + warp], four);
        values[k] += (four[0] + four[1]) + (four[2] + four[3]);
      }
    }
    turn_ ^= 1;
  }

 private:
  Places& places_;
  int num_warps_;
  int first_;
  int turn_ = 0;
};

}  // namespace packtrain::device
