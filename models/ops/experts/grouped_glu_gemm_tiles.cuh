// Tiles of the grouped GEMMs of grouped_glu_gemm.cu and grouped_glu_gemm_backward.cu: rows of a
// group times the matrix of that group.
#pragma once

#include <cstdint>

#include "framework/device/cuda/check.h"
#include "models/ops/cuda/hopper/fragment.cuh"
#include "models/ops/cuda/hopper/ping_pong.cuh"
#include "models/ops/experts/group_tiles.cuh"
#include "models/ops/experts/grouped_glu_gemm_launch.h"

namespace packtrain::device {

using RowsTileScheduler =
    GroupTileScheduler<GroupedGluGemmArguments, kStageDepth, ClusterTiles::kSameRows>;

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
