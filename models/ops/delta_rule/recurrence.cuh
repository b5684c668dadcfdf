// Code that the recurrences over the chunks of a sequence share. A block of threads has a sequence,
// a head and V columns of its state [K, V]. The state has float32 values in registers, and a copy
// in bfloat16 in shared memory, which products read. With two stages, loads of the next chunk
// overlap with the products of this one. That serves few long sequences. With one stage, several
// blocks share a multiprocessor.
#pragma once

#include "framework/device/cuda/check.h"
#include "models/ops/delta_rule/chunk_tiles.cuh"

namespace packtrain::device {

// Warps divide the state into 16 rows and, where K is 64, halves of the columns.
template <int K, int V>
struct StateWarps {
  static_assert(K == 64 || K == 128, "sizes with instances");
  static constexpr int kColumns = V * K / 128;
  __device__ static int row() { return delta_warp() % (K / 16) * 16; }
  __device__ static int column() { return delta_warp() / (K / 16) * kColumns; }
};

// exp() of running sums, for this lane's two rows of a chunk and for its end.
struct ChunkDecays {
  float sums[2] = {};
  float last = 0;

  __device__ void load(const ChunkHead& of) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      sums[half] = of.sum(warp_row() + delta_lane() / 4 + 8 * half);
    }
    last = of.sum(kDeltaRows);
  }
  __device__ float from_begin(int half) const { return __expf(sums[half]); }
  __device__ float to_end(int half) const { return __expf(last - sums[half]); }
  __device__ float whole() const { return __expf(last); }
};

// The sequence, head and columns of a block of threads.
template <int V>
struct RecurrenceBlock {
  DeltaRuleSequence sequence;
  int head;
  int column;

  __device__ explicit RecurrenceBlock(const DeltaRuleArguments& a) {
    const int tiles = (a.value_dim + V - 1) / V;
    const int block = static_cast<int>(blockIdx.x);
    column = block % tiles * V;
    head = block / tiles % a.num_heads;
    sequence = a.sequences[block / tiles / a.num_heads];
  }
};

// Runs `recurrence`, whose load(chunk, stage) starts copies and whose step(chunk, stage) computes,
// over chunks first, first + step, ...
template <int kStages, class Recurrence>
__device__ void run_chunks(Recurrence& recurrence, int first, int count, int step) {
  if constexpr (kStages == 2) {
    recurrence.load(first, 0);
    cp_async_commit_group();
  }
  for (int i = 0; i < count; ++i) {
    const int chunk = first + i * step;
    if constexpr (kStages == 1) {
      __syncthreads();  // the chunk before is done
      recurrence.load(chunk, 0);
      cp_async_commit_group();
    }
    cp_async_wait_group<0>();
    __syncthreads();
    if (kStages == 2 && i + 1 < count) {
      recurrence.load(chunk + step, (i + 1) % 2);
      cp_async_commit_group();
    }
    recurrence.step(chunk, kStages == 2 ? i % 2 : 0);
  }
}

// Launches kernel<V, stages>: columns of 64 and one stage if that gives work to all
// multiprocessors, else columns of 32 and two stages.
inline bool has_many_blocks(const DeltaRuleArguments& a) {
  constexpr std::int64_t kMultiprocessors = 132;
  const std::int64_t blocks =
      std::int64_t{a.num_sequences} * a.num_heads * ((a.value_dim + 63) / 64);
  return blocks >= 2 * kMultiprocessors;
}

template <class Kernel>
void launch_recurrence(Kernel kernel, int columns, int bytes, const DeltaRuleArguments& a,
                       cudaStream_t stream) {
  PACKTRAIN_CUDA_CHECK(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  const int tiles = (a.value_dim + columns - 1) / columns;
  const auto blocks = static_cast<unsigned>(a.num_sequences * a.num_heads * tiles);
  kernel<<<blocks, kDeltaThreads, bytes, stream>>>(a);
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

}  // namespace packtrain::device
