// Tiles of the grouped GEMMs of grouped_glu_gemm.cu and grouped_glu_gemm_backward.cu: rows of a
// group times the matrix of that group.
#pragma once

#include <cstdint>

#include "framework/device/cuda/check.h"
#include "models/ops/cuda/hopper/fragment.cuh"
#include "models/ops/cuda/hopper/ping_pong.cuh"
#include "models/ops/experts/grouped_glu_gemm_launch.h"

namespace packtrain::device {

struct RowsTile {
  int group;
  int row;     // first row of the tile, counted over all groups
  int end;     // end of the group's rows
  int column;  // index of the tile along the columns
  int num_stages;
};

// Gives a cluster two neighbouring tiles of the same rows. Clusters that run at the same time work
// on a panel 16 tiles high, so that their operands stay in L2.
class RowsTileScheduler {
 public:
  static constexpr int kRows = 128;

  __device__ RowsTileScheduler(const GroupedGluGemmArguments& a, int num_columns)
      : a_(a), wide_((num_columns + kClusterSize - 1) / kClusterSize), next_(first_cluster_tile()) {
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
    tile.row = begin_ + (top + in_panel % height) * kRows;
    tile.end = end_;
    tile.column = in_panel / height * kClusterSize + block_rank_in_cluster();
    tile.num_stages = a_.depth / kStageDepth;
    next_ += num_clusters();
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
    high_ = (end_ - begin_ + kRows - 1) / kRows;
  }

  const GroupedGluGemmArguments& a_;
  int wide_;
  int next_;
  int group_ = 0;
  int first_ = 0;  // the first tile of the group
  int high_ = 0;
  int begin_ = 0;
  int end_ = 0;
};

inline CUtensorMap rows_map(const GroupedGluGemmArguments& a) {
  return make_bf16_tensor_map(a.left, {a.num_rows, a.depth, a.depth},
                              {RowsTileScheduler::kRows / kClusterSize, kStageDepth});
}

// Each block copies half of the rows to both blocks of the cluster, which need the same ones.
__device__ inline void copy_rows(const CUtensorMap& map, const RowsTile& tile, int depth,
                                 __nv_bfloat16* to, const Barrier& full) {
  const int share = block_rank_in_cluster() * (RowsTileScheduler::kRows / kClusterSize);
  tma_load_2d_multicast(map, depth, tile.row + share, to + share * kStageDepth, full,
                        (1 << kClusterSize) - 1);
}

// The upper of the two rows of a 64-row part that this thread's accumulators belong to.
__device__ inline int row_of_thread(const RowsTile& tile, int part) {
  return tile.row + part * kMmaRows + threadIdx.x % kWarpGroupThreads / 32 * 16 +
         threadIdx.x % 32 / 4;
}

}  // namespace packtrain::device

namespace packtrain {

template <template <ActivationKind> class Gated, ActivationKind kKind>
void launch_gated_kind(const GroupedGluGemmArguments& a, void* stream) {
  launch_gemm<device::PingPong<Gated<kKind>>>(Gated<kKind>::operands(a), a,
                                              static_cast<cudaStream_t>(stream));
}

template <template <ActivationKind> class Gated>
void launch_gated(const GroupedGluGemmArguments& a, void* stream) {
  switch (a.kind) {
    case ActivationKind::kSilu:
      return launch_gated_kind<Gated, ActivationKind::kSilu>(a, stream);
    case ActivationKind::kGeluTanh:
      return launch_gated_kind<Gated, ActivationKind::kGeluTanh>(a, stream);
    case ActivationKind::kGeluErf:
      return launch_gated_kind<Gated, ActivationKind::kGeluErf>(a, stream);
    case ActivationKind::kClampedSwish:
      return launch_gated_kind<Gated, ActivationKind::kClampedSwish>(a, stream);
    case ActivationKind::kSquaredRelu:  // grouped_glu_gemm_materializes_grad() excludes it
      PACKTRAIN_CUDA_CHECK(cudaErrorNotSupported);
  }
}

}  // namespace packtrain
