// The shared memory of nf4_gemm_kernel.cuh.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "models/block/nf4_groups.h"
#include "models/ops/cuda/hopper/cooperative.cuh"
#include "models/ops/nf4/nf4_arithmetic.h"
#include "models/ops/nf4/nf4_gemm_launch.h"

namespace packtrain::device {

constexpr int kNf4TileColumns = 128;
constexpr int kNf4GroupColumns = kNf4TileColumns / 2;  // of a consumer warp group
constexpr int kNf4TileBlocks = 128;                    // blocks of 64 elements that a stage has
constexpr int kNf4BlockBytes = static_cast<int>(kNf4BlockElements) / 2;
constexpr int kNf4Stages = 5;
constexpr int kNf4Ahead = 3;  // stages whose copies are in flight
constexpr int kNf4Words = 4;  // words of absmax codes that a producer thread keeps

__device__ const Nf4Tables kNf4DeviceTables = make_nf4_tables();

// The kernel argument. The depth is divided over the blocks of a cluster.
struct Nf4GemmKernelArguments : Nf4GemmArguments {
  CUtensorMap left_map;
  int width = 0;
  int num_stages = 0;  // of the whole depth
};

template <int kTokens>
struct Nf4Stage {
  __nv_bfloat16 left[kTokens * kStageDepth];
  std::uint8_t codes[kNf4TileBlocks * kNf4BlockBytes];
  float absmax[kNf4TileBlocks];
  float unused[kNf4TileBlocks];  // up to a multiple of 1,024 bytes
};

template <int kTokens>
struct Nf4GemmStorage {
  alignas(1024) Nf4Stage<kTokens> stages[kNf4Stages];
  // Of the producer's threads, each its own. Nested absmax and offset, and absmax codes.
  float2 headers[kNf4Words][kWarpGroupThreads];
  std::uint32_t absmax_words[kNf4Words][kWarpGroupThreads];
  float quantiles[16];
  float absmax_map[256];
  std::uint32_t zero;
  Barrier full[kNf4Stages];
  Barrier empty[kNf4Stages];
};

// Where a block's 16 bytes are: halves change places, so that no two rows that a warp reads have
// the same banks.
__device__ inline int nf4_half_offset(int block, int half) {
  return block * kNf4BlockBytes + (half ^ (block >> 2 & 1)) * 16;
}

}  // namespace packtrain::device
