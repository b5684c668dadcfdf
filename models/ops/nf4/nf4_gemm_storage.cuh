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
constexpr int kNf4BlockBytes = static_cast<int>(kNf4BlockElements) / 2;

// The kernel argument. The depth is divided over the blocks of a cluster.
struct Nf4GemmKernelArguments : Nf4GemmArguments {
  CUtensorMap left_map;
  int width = 0;
  int num_stages = 0;  // of the whole depth
};

// Two boxes of the weight, one for each consumer warp group, and the tokens' rows.
template <int kTokens>
struct Nf4Stage {
  __nv_bfloat16 weight[2 * kBoxNumel];
  __nv_bfloat16 left[kTokens * kStageDepth];
};

template <int kTokens>
struct Nf4GemmStorage {
  static constexpr int kStages = kTokens == 256 ? 4 : 6;
  alignas(1024) Nf4Stage<kTokens> stages[kStages];
  float absmax_map[256];
  Barrier full[kStages];
  Barrier empty[kStages];
};

}  // namespace packtrain::device
