// Matrix products tile by tile, each block at work from the first to the last: one warp group keeps
// copying both operands into stages of shared memory, and two take turns at the tiles: while one
// multiplies, the other one writes what it has. Two blocks of a cluster work on neighbouring tiles
// and fetch what both need once. The form is that of CUTLASS's persistent warp-specialized
// ping-pong kernels (github.com/NVIDIA/cutlass, media/docs/cpp/efficient_gemm.md). Hopper alone.
//
// A Product says what is multiplied and what becomes of the sums:
//   kRows, kColumns           of a tile: parts of 64 rows; columns as multiply() takes them
//   kLeft, kRight             majors of the operands
//   Arguments                 given to the kernel
//   Tile                      with num_stages, at least 1: the sums' length in stages of 64
//   Tiles(arguments)          .next(tile): the block's tiles one after another; the blocks of a
//                             cluster have as many, of as many stages
//   copy(operands, arguments, tile, i, stage, full)   its share of a tile's i-th stage, one thread
//   Product(arguments, tile), .begin(), .write(sums)  a warp group: before a tile's products, while
//                             the last ones are under way, and behind them
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "framework/device/cuda/check.h"
#include "models/ops/cuda/cluster.cuh"
#include "models/ops/cuda/hopper/tensor_copy.cuh"
#include "models/ops/cuda/hopper/tensor_map.h"
#include "models/ops/cuda/hopper/wgmma.cuh"

namespace packtrain {
namespace device {

constexpr int kStageDepth = 64;  // of the sums' length
constexpr int kPartRows = 64;    // of a tile, that one instruction makes
constexpr int kPair = 2;         // blocks of a cluster
constexpr int kGroupThreads = 128;
constexpr int kPingPongThreads = 3 * kGroupThreads;

// An operand in boxes of 64 rows of 128 bytes.
constexpr int kBoxNumel = 64 * 64;
constexpr int kBoxBytes = kBoxNumel * 2;

struct Operands {
  CUtensorMap left;
  CUtensorMap right;
};

template <typename Product>
struct TileSums {
  Sums<Product::kColumns> parts[Product::kRows / kPartRows];
};

template <typename Product>
struct Stage {
  __nv_bfloat16 left[Product::kRows * kStageDepth];
  __nv_bfloat16 right[Product::kColumns * kStageDepth];
};

template <typename Product>
struct PingPongMemory {
  static constexpr int kStages = 220 * 1024 / sizeof(Stage<Product>);
  alignas(1024) Stage<Product> stages[kStages];
  Barrier full[kStages];
  Barrier empty[kStages];
  Barrier turns[2];  // of the warp groups: the other one has asked for all its products
};

// Stages in the order in which they are filled.
template <int kStages>
struct StageCount {
  int count = 0;

  __device__ int stage() const { return count % kStages; }
  __device__ int parity() const { return count / kStages % 2; }
};

// One thread.
template <typename Product>
__device__ void produce(const Operands& operands, const typename Product::Arguments& a,
                        PingPongMemory<Product>& memory) {
  typename Product::Tiles tiles(a);
  StageCount<PingPongMemory<Product>::kStages> turn;
  for (typename Product::Tile tile; tiles.next(tile);) {
    for (int i = 0; i < tile.num_stages; ++i, ++turn.count) {
      Stage<Product>& stage = memory.stages[turn.stage()];
      Barrier& full = memory.full[turn.stage()];
      memory.empty[turn.stage()].wait(turn.parity() ^ 1);
      full.arrive_expecting(sizeof(stage));
      Product::copy(operands, a, tile, i, stage, full);
    }
  }
}

// 16 of a stage's depth, from the `step`-th on.
template <Major kMajor>
__device__ std::uint64_t operand(std::uint32_t place, int step) {
  return kMajor == Major::kInner ? inner_major_operand(place + step * 32)
                                 : outer_major_operand(place + step * 16 * 128, kBoxBytes);
}

template <typename Product>
__device__ void multiply_stage(const Stage<Product>& stage, TileSums<Product>& sums, bool add) {
  const std::uint32_t left = shared_address(stage.left);
  const std::uint32_t right = shared_address(stage.right);
#pragma unroll
  for (int step = 0; step < kStageDepth / 16; ++step) {
#pragma unroll
    for (int part = 0; part < Product::kRows / kPartRows; ++part) {
      multiply<Product::kLeft, Product::kRight>(
          sums.parts[part], operand<Product::kLeft>(left + part * kBoxBytes, step),
          operand<Product::kRight>(right, step), add || step > 0);
    }
  }
}

template <int kLeft, typename Product>
__device__ void wait_for_all_but(TileSums<Product>& sums) {
#pragma unroll
  for (auto& part : sums.parts) wait_for_products<kLeft>(part);
}

// This warp has read a stage: so it tells both blocks that write to it.
template <typename Product>
__device__ void release_stage(PingPongMemory<Product>& memory, int stage) {
  if (threadIdx.x % 32 == 0) {
    for (int rank = 0; rank < kPair; ++rank) memory.empty[stage].arrive_at(rank);
  }
}

// Returns with the last stage's products under way.
template <typename Product>
__device__ void multiply_tile(const typename Product::Tile& tile, PingPongMemory<Product>& memory,
                              StageCount<PingPongMemory<Product>::kStages>& turn,
                              TileSums<Product>& sums) {
  int previous = 0;
  for (int i = 0; i < tile.num_stages; ++i, ++turn.count) {
    memory.full[turn.stage()].wait(turn.parity());
#pragma unroll
    for (auto& part : sums.parts) begin_products(part);
    multiply_stage<Product>(memory.stages[turn.stage()], sums, i > 0);
    commit_products();
    wait_for_all_but<1>(sums);
    if (i > 0) release_stage(memory, previous);
    previous = turn.stage();
  }
}

template <typename Product>
__device__ void consume(const typename Product::Arguments& a, PingPongMemory<Product>& memory) {
  constexpr int kStages = PingPongMemory<Product>::kStages;
  const int group = threadIdx.x / kGroupThreads - 1;
  typename Product::Tiles tiles(a);
  StageCount<kStages> turn;
  int whose = 0;
  int parity = group ^ 1;  // nobody is before the first group's first tile
  for (typename Product::Tile tile; tiles.next(tile); whose ^= 1) {
    if (whose != group) {
      turn.count += tile.num_stages;
      continue;
    }
    Product product(a, tile);
    TileSums<Product> sums;
    memory.turns[group].wait(parity);
    parity ^= 1;
    multiply_tile<Product>(tile, memory, turn, sums);
    if (threadIdx.x % 32 == 0) memory.turns[group ^ 1].arrive();
    product.begin();
    wait_for_all_but<0>(sums);
    release_stage(memory, (turn.count - 1) % kStages);
    product.write(sums);
  }
}

template <typename Product>
__global__ void __launch_bounds__(kPingPongThreads, 1) __cluster_dims__(kPair, 1, 1)
    ping_pong_kernel(const __grid_constant__ Operands operands,
                     const __grid_constant__ typename Product::Arguments a) {
  constexpr int kProducerRegisters = 24;
  constexpr int kConsumerRegisters = 240;
  using Memory = PingPongMemory<Product>;
  extern __shared__ unsigned char bytes[];
  const std::uintptr_t aligned = (reinterpret_cast<std::uintptr_t>(bytes) + alignof(Memory) - 1) /
                                 alignof(Memory) * alignof(Memory);
  Memory& memory = *reinterpret_cast<Memory*>(aligned);
  if (threadIdx.x == 0) {
    for (int s = 0; s < Memory::kStages; ++s) {
      memory.full[s].init(1);
      memory.empty[s].init(kPair * kGroupThreads / 32);
    }
    for (Barrier& turn : memory.turns) turn.init(kGroupThreads / 32);
    publish_barriers();
  }
  cluster_barrier();
  if (threadIdx.x < kGroupThreads) {
    give_registers<kProducerRegisters>();
    if (threadIdx.x == 0) produce<Product>(operands, a, memory);
    __syncwarp();
  } else {
    take_registers<kConsumerRegisters>();
    consume<Product>(a, memory);
  }
  cluster_barrier();  // no block ends while another one arrives at its barriers
}

// The first tile's number of this block's pair, and how far it is to the next.
__device__ inline int first_pair() {
  return static_cast<int>(blockIdx.x) / kPair;
}
__device__ inline int num_pairs() {
  return static_cast<int>(gridDim.x) / kPair;
}

}  // namespace device

template <typename Product>
void launch_ping_pong(const device::Operands& operands, const typename Product::Arguments& a,
                      cudaStream_t stream) {
  using Memory = device::PingPongMemory<Product>;
  constexpr int kBytes = sizeof(Memory) + alignof(Memory);
  int device = 0;
  int num_processors = 0;
  PACKTRAIN_CUDA_CHECK(cudaGetDevice(&device));
  PACKTRAIN_CUDA_CHECK(
      cudaDeviceGetAttribute(&num_processors, cudaDevAttrMultiProcessorCount, device));
  const auto kernel = device::ping_pong_kernel<Product>;
  PACKTRAIN_CUDA_CHECK(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
  const int blocks = num_processors / device::kPair * device::kPair;
  kernel<<<blocks, device::kPingPongThreads, kBytes, stream>>>(operands, a);
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

}  // namespace packtrain
