// Sizes and shared memory of lora_gradients_kernel.cuh.
#pragma once

#include <cuda_bf16.h>

#include "models/ops/cuda/hopper/tma.cuh"
#include "models/ops/linear/lora_gradients_launch.h"

namespace packtrain::device {

struct LoraGradientsKernelArguments : LoraGradientsArguments {
  CUtensorMap grad_output_map;
  CUtensorMap s_map;
};

// Sizes of a block. Larger ranks have narrower strips, so that registers hold what stays there.
template <int kTheRank>
struct LoraGradientsShape {
  static constexpr int kRank = kTheRank;
  static constexpr int kColumnWarps = 4;
  static constexpr int kWarps = 8;
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kRowWarps = kWarps / kColumnWarps;
  // Registers of a thread: kWarpColumns * kRank / 64 for B, twice as many for its gradient.
  static constexpr int kWarpColumns = kRank == 16 ? 128 : kRank == 32 ? 64 : 32;
  static constexpr int kStripColumns = kWarpColumns * kColumnWarps;
  static constexpr int kStageRows = 16 * kRowWarps;
  static constexpr int kBox = 64;  // columns of a TMA box: 128 bytes
  static constexpr int kBoxNumel = kStageRows * kBox;
  static constexpr int kBoxes = kStripColumns / kBox;
  static constexpr int kSteps = kWarpColumns / 16;
  static constexpr int kParts = kRank / 8;  // mma along the rank
};

template <typename Shape>
struct LoraGradientsStage {
  __nv_bfloat16 grad_output[Shape::kBoxes][Shape::kBoxNumel];
  __nv_bfloat16 s[Shape::kBoxNumel];
};

template <typename Shape>
struct LoraGradientsStorage {
  // Number of sums of grad_low_rank that all warps have.
  static constexpr int kSums = Shape::kWarps * 16 * Shape::kRank;
  // What fits the 227 KiB of a block with two buffers of sums.
  static constexpr int kFitting = (222 * 1024 - 2 * kSums * 4) / sizeof(LoraGradientsStage<Shape>);
  static constexpr int kStages = kFitting < 8 ? kFitting : 8;
  alignas(1024) LoraGradientsStage<Shape> stages[kStages];
  float sums[2][kSums];
  Barrier full[kStages];
};

}  // namespace packtrain::device
