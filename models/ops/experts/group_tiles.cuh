// Tiles of grouped GEMMs whose groups are rows of the left operand (grouped_matmul.h).
#pragma once

#include "models/ops/cuda/hopper/gemm_kernel.cuh"

namespace packtrain::device {

struct RowsTile {
  int group;
  int row;     // first row of the tile, counted over all groups
  int end;     // end of the group's rows
  int column;  // index of the tile along the columns
  int num_stages;
};

// The two neighbouring tiles of a cluster have the same rows or the same columns. Their blocks
// share the copies of these.
enum class ClusterTiles { kSameRows, kSameColumns };

// Clusters that run at the same time work on a panel 2,048 rows high, so that their operands stay
// in L2. A second tile of the same columns may begin at the end of its group. `Arguments` have
// num_groups, their ends, and depth, of which a stage has kDepthOfStage.
template <typename Arguments, int kDepthOfStage, ClusterTiles kTiles>
class GroupTileScheduler {
 public:
  static constexpr int kRows = 128;

  // `num_columns`: of tiles.
  __device__ GroupTileScheduler(const Arguments& a, int num_columns)
      : a_(a),
        wide_((num_columns + kClusterColumns - 1) / kClusterColumns),
        next_(first_cluster_tile()) {
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
    const int rank = block_rank_in_cluster();
    tile.row =
        begin_ + (top + in_panel % height) * kClusterRows + (kHasSameRows ? 0 : rank * kRows);
    tile.end = end_;
    tile.column = in_panel / height * kClusterColumns + (kHasSameRows ? rank : 0);
    tile.num_stages = (a_.depth + kDepthOfStage - 1) / kDepthOfStage;
    next_ += num_clusters();
    return true;
  }

 private:
  static constexpr bool kHasSameRows = kTiles == ClusterTiles::kSameRows;
  static constexpr int kClusterRows = kHasSameRows ? kRows : kRows * kClusterSize;
  static constexpr int kClusterColumns = kHasSameRows ? kClusterSize : 1;  // tiles
  static constexpr int kPanel = 2048 / kClusterRows;

  __device__ void begin_group(int group) {
    if (group > 0) first_ += high_ * wide_;
    group_ = group;
    if (group >= a_.num_groups) return;
    begin_ = end_;
    end_ = a_.ends[group];
    high_ = (end_ - begin_ + kClusterRows - 1) / kClusterRows;
  }

  const Arguments& a_;
  int wide_;
  int next_;
  int group_ = 0;
  int first_ = 0;  // the first tile of the group
  int high_ = 0;
  int begin_ = 0;
  int end_ = 0;
};

}  // namespace packtrain::device
