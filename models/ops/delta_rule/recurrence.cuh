// Code that the recurrences over the chunks of a sequence share. A block of threads has one group
// of sequences, one head, and V columns of its state. The state has float32 values in registers,
// and a copy in bfloat16 in shared memory, which products read. Narrow tiles serve few long
// sequences, because more blocks share a sequence. Wide ones read less memory.
#pragma once

#include <type_traits>

#include "framework/device/cuda/check.h"
#include "models/ops/delta_rule/chunk_tiles.cuh"

namespace packtrain::device {

// Threads of a block. More of them hide more of the latency of shared memory.
template <int V>
constexpr int kRecurrenceThreads = V == 32 ? 256 : 512;

// Warps divide the state into 16 rows, and the columns where there are more warps than that.
template <int K, int V>
struct StateWarps {
  static_assert(K == 64 || K == 128, "sizes with instances");
  static constexpr int kColumns = V * (K / 16) / (kRecurrenceThreads<V> / 32);
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

// The chunks, head and columns of a block of threads. A group has whole sequences.
template <int V>
struct RecurrenceBlock {
  int begin;
  int end;
  int head;
  int column;

  __device__ explicit RecurrenceBlock(const DeltaRuleArguments& a) {
    const int tiles = (a.value_dim + V - 1) / V;
    const int block = static_cast<int>(blockIdx.x);
    column = block % tiles * V;
    head = block / tiles % a.num_heads;
    const int group = block / tiles / a.num_heads;
    begin = a.group_begins[group];
    end = a.group_begins[group + 1];
  }
};

// Runs `recurrence` over `count` chunks: first, first + step, ... Its load() starts copies of a
// chunk, and its step() computes. Copies of the next chunk overlap with the step of this one.
template <class Recurrence>
__device__ void run_chunks(Recurrence& recurrence, const DeltaRuleArguments& a, int head, int first,
                           int count, int step) {
  if (count == 0) return;
  // Clamped, so that all places are in the table.
  const auto rows_at = [&](int i) { return a.chunks[first + min(i, count - 1) * step]; };
  DeltaRuleChunkRows rows = rows_at(0);
  DeltaRuleChunkRows next_rows = rows_at(1);
  ChunkDecays decays;
  recurrence.load(ChunkHead{rows, head, a}, first, 0);
  cp_async_commit_group();
  decays.load(ChunkHead{rows, head, a});
  for (int i = 0; i < count; ++i) {
    const int chunk = first + i * step;
    cp_async_wait_group<0>();
    __syncthreads();  // the copies are there, and the chunk before is done
    const DeltaRuleChunkRows later_rows = rows_at(i + 2);
    ChunkDecays next_decays;
    if (i + 1 < count) {
      recurrence.load(ChunkHead{next_rows, head, a}, chunk + step, (i + 1) % 2);
      cp_async_commit_group();
      next_decays.load(ChunkHead{next_rows, head, a});
    }
    recurrence.step(ChunkHead{rows, head, a}, chunk, i % 2, decays);
    rows = next_rows;
    next_rows = later_rows;
    decays = next_decays;
  }
}

template <int V, class Kernel>
void launch_recurrence(Kernel kernel, int bytes, const DeltaRuleArguments& a, cudaStream_t stream) {
  PACKTRAIN_CUDA_CHECK(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  const int tiles = (a.value_dim + V - 1) / V;
  const auto blocks = static_cast<unsigned>(a.num_groups * a.num_heads * tiles);
  kernel<<<blocks, kRecurrenceThreads<V>, bytes, stream>>>(a);
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

// Calls launch(K, V) with std::integral_constant: K keys and V columns that the state's tiles have.
template <class Launch>
void with_instance(const DeltaRuleArguments& a, const Launch& launch) {
  const auto with_columns = [&](auto keys) {
    switch (a.columns) {
      case 32:
        return launch(keys, std::integral_constant<int, 32>());
      case 64:
        return launch(keys, std::integral_constant<int, 64>());
      default:
        return launch(keys, std::integral_constant<int, 128>());
    }
  };
  a.key_dim <= 64 ? with_columns(std::integral_constant<int, 64>())
                  : with_columns(std::integral_constant<int, 128>());
}

}  // namespace packtrain::device
