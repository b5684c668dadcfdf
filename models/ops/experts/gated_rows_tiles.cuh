// Rows of groups times the matrix of each group, and something made of the sums where they are.
// A block makes tiles of 128 rows x N sums, all of a tile by one warp group: while one multiplies,
// the other one writes its tile. A third keeps copying 64 columns of both operands into stages of
// shared memory. Two blocks of a cluster have tiles beside each other and fetch half of the rows
// each for both. The form is that of CUTLASS's
// persistent warp-specialized ping-pong kernels (github.com/NVIDIA/cutlass,
// media/docs/cpp/efficient_gemm.md).
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "framework/device/cuda/check.h"
#include "models/ops/cuda/cluster.cuh"
#include "models/ops/cuda/hopper/tensor_copy.cuh"
#include "models/ops/cuda/hopper/tensor_map.h"
#include "models/ops/cuda/hopper/wgmma.cuh"
#include "models/ops/experts/gated_rows_launch.h"

namespace packtrain::device {

constexpr int kTileRows = 128;
constexpr int kStageDepth = 64;  // of the sums' length: 128 bytes of a row
constexpr int kGroupThreads = 128;
constexpr int kBlockThreads = 3 * kGroupThreads;
constexpr int kTileCluster = 2;
constexpr int kProducerRegisters = 24;
constexpr int kConsumerRegisters = 240;

struct Operands {
  CUtensorMap left;
  CUtensorMap right;
};

struct RowsTile {
  int group;
  int row;     // the first, of all rows
  int end;     // of the group
  int column;  // which tile of its rows
};

// The tiles of a block, or of one of its warp groups: of each `step`-th cluster from `first` on.
// Tiles at work at one time are of a panel, 16 high, so that what they read stays in L2.
class RowsTiles {
 public:
  __device__ RowsTiles(const GatedRowsArguments& a, int num_columns, int first, int step)
      : a_(a), wide_((num_columns + kTileCluster - 1) / kTileCluster), next_(first), step_(step) {
    begin_group(0);
  }

  __device__ bool next(RowsTile& tile) {
    while (group_ < a_.num_groups && next_ >= first_ + high_ * wide_) begin_group(group_ + 1);
    if (group_ >= a_.num_groups) return false;
    const int within = next_ - first_;
    const int top = within / (kPanel * wide_) * kPanel;
    const int height = min(kPanel, high_ - top);
    const int in_panel = within - top * wide_;
    tile.group = group_;
    tile.row = begin_ + (top + in_panel % height) * kTileRows;
    tile.end = end_;
    tile.column = in_panel / height * kTileCluster + cluster_rank();
    next_ += step_;
    return true;
  }

 private:
  static constexpr int kPanel = 16;

  __device__ void begin_group(int group) {
    if (group > 0) first_ += high_ * wide_;
    group_ = group;
    if (group >= a_.num_groups) return;
    begin_ = end_;
    end_ = a_.ends[group];
    high_ = (end_ - begin_ + kTileRows - 1) / kTileRows;
  }

  const GatedRowsArguments& a_;
  int wide_;
  int next_;
  int step_;
  int group_ = 0;
  int first_ = 0;  // of the group's tiles
  int high_ = 0;
  int begin_ = 0;
  int end_ = 0;
};

template <typename Product>
struct RowsShared {
  static constexpr int kColumns = Product::kColumns;
  static constexpr int kStages = kColumns > 128 ? 5 : 6;
  struct Stage {
    __nv_bfloat16 left[kTileRows][kStageDepth];
    __nv_bfloat16 right[kColumns * kStageDepth];
  };
  alignas(1024) Stage stages[kStages];
  Barrier full[kStages];
  Barrier empty[kStages];
  Barrier turns[2];  // the other warp group has asked for its last products
};

// The stages in the order in which they are filled.
template <int kStages>
struct StageCount {
  int count = 0;

  __device__ int stage() const { return count % kStages; }
  __device__ int parity() const { return count / kStages % 2; }
};

// One thread.
template <typename Product>
__device__ void produce(const Operands& operands, const GatedRowsArguments& a,
                        RowsShared<Product>& shared) {
  using Shared = RowsShared<Product>;
  constexpr int kShare = kTileRows / kTileCluster;
  const int share = cluster_rank() * kShare;
  RowsTiles tiles(a, Product::num_tiles(a), blockIdx.x / kTileCluster, gridDim.x / kTileCluster);
  StageCount<Shared::kStages> turn;
  for (RowsTile tile; tiles.next(tile);) {
    for (int depth = 0; depth < a.depth; depth += kStageDepth, ++turn.count) {
      auto& stage = shared.stages[turn.stage()];
      Barrier& full = shared.full[turn.stage()];
      shared.empty[turn.stage()].wait(turn.parity() ^ 1);
      full.arrive_expecting(sizeof(stage));
      copy_box_to_blocks(operands.left, depth, tile.row + share, stage.left[share], full,
                         (1 << kTileCluster) - 1);
      Product::copy_right(operands.right, a, tile, depth, stage.right, full);
    }
  }
}

// All sums of a tile, 64 rows each.
template <int N>
struct TileSums {
  Sums<N> halves[2];
};

template <typename Product>
__device__ void multiply_stage(const typename RowsShared<Product>::Stage& stage,
                               TileSums<Product::kColumns>& sums, bool add) {
  constexpr int kHalfBytes = 64 * kStageDepth * sizeof(__nv_bfloat16);
  const std::uint32_t left = shared_address(stage.left);
  const std::uint32_t right = shared_address(stage.right);
#pragma unroll
  for (int step = 0; step < kStageDepth / 16; ++step) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      multiply<Major::kInner, Product::kRight>(
          sums.halves[half], inner_major_operand(left + half * kHalfBytes + step * 32),
          Product::right_operand(right, step), add || step > 0);
    }
  }
}

// This warp has read a stage: so it tells all blocks that write to it.
template <typename Shared>
__device__ void release_stage(Shared& shared, int stage) {
  if (threadIdx.x % 32 == 0) {
    for (int rank = 0; rank < kTileCluster; ++rank) shared.empty[stage].arrive_at(rank);
  }
}

// Returns with the last stage's products under way.
template <typename Product>
__device__ void multiply_tile(int num_stages, RowsShared<Product>& shared,
                              StageCount<RowsShared<Product>::kStages>& turn,
                              TileSums<Product::kColumns>& sums) {
  int previous = 0;
  for (int i = 0; i < num_stages; ++i, ++turn.count) {
    shared.full[turn.stage()].wait(turn.parity());
    begin_products(sums.halves[0]);
    pin(sums.halves[1]);
    multiply_stage<Product>(shared.stages[turn.stage()], sums, i > 0);
    commit_products();
    wait_for_products<1>(sums.halves[0]);
    pin(sums.halves[1]);
    if (i > 0) release_stage(shared, previous);
    previous = turn.stage();
  }
}

template <typename Product>
__device__ void consume(const GatedRowsArguments& a, RowsShared<Product>& shared) {
  using Shared = RowsShared<Product>;
  const int group = threadIdx.x / kGroupThreads - 1;
  const int num_clusters = gridDim.x / kTileCluster;
  const int num_stages = a.depth / kStageDepth;
  RowsTiles tiles(a, Product::num_tiles(a), blockIdx.x / kTileCluster + group * num_clusters,
                  2 * num_clusters);
  StageCount<Shared::kStages> turn;
  turn.count = group * num_stages;
  int parity = group ^ 1;  // nobody is before the first group's first tile
  for (RowsTile tile; tiles.next(tile); parity ^= 1) {
    Product product(a, tile);
    TileSums<Product::kColumns> sums;
    shared.turns[group].wait(parity);
    multiply_tile<Product>(num_stages, shared, turn, sums);
    if (threadIdx.x % 32 == 0) shared.turns[group ^ 1].arrive();
    product.begin();
    wait_for_products<0>(sums.halves[0]);
    pin(sums.halves[1]);
    release_stage(shared, (turn.count - 1) % Shared::kStages);
    turn.count += num_stages;
    product.write(sums);
  }
}

template <typename Product>
__global__ void __launch_bounds__(kBlockThreads, 1) __cluster_dims__(kTileCluster, 1, 1)
    gated_rows_kernel(const __grid_constant__ Operands operands,
                      const __grid_constant__ GatedRowsArguments a) {
  using Shared = RowsShared<Product>;
  extern __shared__ unsigned char memory[];
  const std::uintptr_t aligned = (reinterpret_cast<std::uintptr_t>(memory) + alignof(Shared) - 1) /
                                 alignof(Shared) * alignof(Shared);
  Shared& shared = *reinterpret_cast<Shared*>(aligned);
  if (threadIdx.x == 0) {
    for (int s = 0; s < Shared::kStages; ++s) {
      shared.full[s].init(1);
      shared.empty[s].init(kTileCluster * kGroupThreads / 32);
    }
    for (Barrier& turn : shared.turns) turn.init(kGroupThreads / 32);
    publish_barriers();
  }
  cluster_barrier();
  if (threadIdx.x < kGroupThreads) {
    give_registers<kProducerRegisters>();
    if (threadIdx.x == 0) produce<Product>(operands, a, shared);
    __syncwarp();
  } else {
    take_registers<kConsumerRegisters>();
    consume<Product>(a, shared);
  }
  cluster_barrier();  // no block ends while another one arrives at its barriers
}

template <typename Product>
void launch_rows(const GatedRowsArguments& a, cudaStream_t stream) {
  using Shared = RowsShared<Product>;
  constexpr int kBytes = sizeof(Shared) + alignof(Shared);
  const Operands operands = {
      bfloat16_map(a.left, {a.num_rows, a.depth, a.depth}, {kTileRows / kTileCluster, kStageDepth}),
      Product::right_map(a)};
  int device = 0;
  int num_processors = 0;
  PACKTRAIN_CUDA_CHECK(cudaGetDevice(&device));
  PACKTRAIN_CUDA_CHECK(
      cudaDeviceGetAttribute(&num_processors, cudaDevAttrMultiProcessorCount, device));
  const auto kernel = gated_rows_kernel<Product>;
  PACKTRAIN_CUDA_CHECK(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
  const int blocks = num_processors / kTileCluster * kTileCluster;
  kernel<<<blocks, kBlockThreads, kBytes, stream>>>(operands, a);
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

// Four words of each of four threads beside each other: thread t has the t-th of all after it.
__device__ inline void exchange_words(std::uint32_t (&words)[4]) {
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

}  // namespace packtrain::device
