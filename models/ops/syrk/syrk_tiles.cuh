// Tiles of a symmetric product, on and below the diagonal of a square of tiles. The two blocks of a
// cluster have tiles one below the other. Both read the same rows of x as right operand, and share
// the copies of these. What is left are every second tile of the diagonal and the last row of an
// odd number: single tiles, which share nothing.
#pragma once

#include "models/ops/cuda/hopper/gemm_kernel.cuh"
#include "models/ops/syrk/syrk_launch.h"

namespace packtrain {

constexpr int kSyrkTile = 128;

__host__ __device__ inline int syrk_tiles_high(int n) {
  return (n + kSyrkTile - 1) / kSyrkTile;
}
// Pairs in rows of tiles 2 p and 2 p + 1: the columns 0 to 2 p.
__host__ __device__ inline int syrk_shared_pairs(int high) {
  return high / 2 * (high / 2);
}
__host__ __device__ inline int syrk_single_tiles(int high) {
  return high / 2 + (high % 2 == 1 ? high : 0);
}
// What clusters compute of a matrix, one pair of tiles after another.
__host__ __device__ inline int syrk_pairs(int high) {
  return syrk_shared_pairs(high) + (syrk_single_tiles(high) + 1) / 2;
}

namespace device {

struct SyrkTile {
  int matrix;
  int row;     // of the first element
  int column;  // of the first element, row at most
  int num_stages;
  bool shares_right;  // with the other block of the cluster
  bool is_written;    // false: the other block has the last single tile
};

class SyrkTileScheduler {
 public:
  __device__ explicit SyrkTileScheduler(const SyrkArguments& a)
      : a_(a), high_(syrk_tiles_high(a.n)), next_(first_cluster_tile()) {}

  __device__ bool next(SyrkTile& tile) {
    const int pairs = syrk_pairs(high_);
    if (next_ >= a_.count * pairs) return false;
    tile.matrix = next_ / pairs;
    tile.num_stages = (a_.k + kStageDepth - 1) / kStageDepth;
    const int within = next_ % pairs;
    const int shared = syrk_shared_pairs(high_);
    within < shared ? set_pair(tile, within) : set_single(tile, within - shared);
    next_ += num_clusters();
    return true;
  }

 private:
  __device__ void set_pair(SyrkTile& tile, int pair) const {
    int p = static_cast<int>(sqrtf(static_cast<float>(pair)));
    while (p * p > pair) --p;  // float32 has rounded
    while ((p + 1) * (p + 1) <= pair) ++p;
    tile.row = (2 * p + block_rank_in_cluster()) * kSyrkTile;
    tile.column = (pair - p * p) * kSyrkTile;
    tile.shares_right = tile.is_written = true;
  }

  __device__ void set_single(SyrkTile& tile, int pair) const {
    const int last = syrk_single_tiles(high_) - 1;
    const int single = 2 * pair + block_rank_in_cluster();
    const int chosen = min(single, last);
    const int of_diagonal = high_ / 2;
    const bool is_diagonal = chosen < of_diagonal;
    tile.row = (is_diagonal ? 2 * chosen + 1 : high_ - 1) * kSyrkTile;
    tile.column = (is_diagonal ? 2 * chosen + 1 : chosen - of_diagonal) * kSyrkTile;
    tile.shares_right = false;
    tile.is_written = single <= last;
  }

  const SyrkArguments& a_;
  int high_;
  int next_;
};

}  // namespace device
}  // namespace packtrain
