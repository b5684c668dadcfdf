// What the kernels of the state space model share: one chunk of one head, and products of float32
// tiles. 256 threads compute a tile of 64 x 64. Each thread has 4 x 4 elements, in rows
// 16 r + thread / 16 and columns 16 s + thread % 16. All sums have a fixed order.
#pragma once

#include "models/ops/cuda/vector.cuh"
#include "models/ops/mamba2/ssd_launch.h"

namespace packtrain::device {

constexpr int kSsdThreads = 256;
constexpr int kSsdTile = 64;  // rows of a chunk, and columns of a tile
constexpr int kSsdDepth = 16;
constexpr int kSsdPart = 4;  // of a tile's rows and of its columns, of a thread

// The number of tiles that have all of the columns.
__host__ __device__ constexpr int ssd_tiles(int columns) {
  return (columns + kSsdTile - 1) / kSsdTile;
}

struct SsdShared {
  float left[kSsdDepth][kSsdTile + 1];
  float right[kSsdDepth][kSsdTile + 1];
  float square[kSsdTile][kSsdTile + 1];  // of two rows of the chunk
  float sum[kSsdTile];                   // a; rows after the last have that of the last
  float step[kSsdTile];                  // 0 after the last row
  float row_sums[kSsdTile][kSsdTile / kSsdPart + 1];
  float scratch[32];
};

using SsdTile = float[kSsdPart][kSsdPart];

__device__ inline int ssd_row(int r) {
  return 16 * r + static_cast<int>(threadIdx.x) / 16;
}
__device__ inline int ssd_column(int s) {
  return 16 * s + static_cast<int>(threadIdx.x) % 16;
}

// Calls work(row, column, element) for the thread's elements of a tile.
template <class Work>
__device__ void for_ssd_tile(SsdTile& tile, const Work& work) {
#pragma unroll
  for (int r = 0; r < kSsdPart; ++r) {
#pragma unroll
    for (int s = 0; s < kSsdPart; ++s) work(ssd_row(r), ssd_column(s), tile[r][s]);
  }
}

__device__ inline void clear(SsdTile& tile) {
  for_ssd_tile(tile, [](int, int, float& element) { element = 0; });
}

// tile += left x right over `depth`. left(row, k) and right(k, column) return 0 outside of their
// matrices. Neighbouring threads load neighbouring k of the left factor if `left_by_depth`, and
// neighbouring rows otherwise.
template <bool left_by_depth, class Left, class Right>
__device__ void add_ssd_product(SsdTile& tile, int depth, SsdShared& shared, const Left& left,
                                const Right& right) {
  for (int first = 0; first < depth; first += kSsdDepth) {
    __syncthreads();  // the factors before are read
    for (int at = static_cast<int>(threadIdx.x); at < kSsdDepth * kSsdTile; at += kSsdThreads) {
      const int lk = left_by_depth ? at % kSsdDepth : at / kSsdTile;
      const int row = left_by_depth ? at / kSsdDepth : at % kSsdTile;
      shared.left[lk][row] = first + lk < depth ? left(row, first + lk) : 0;
      const int rk = at / kSsdTile;
      shared.right[rk][at % kSsdTile] = first + rk < depth ? right(first + rk, at % kSsdTile) : 0;
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kSsdDepth; ++k) {
#pragma unroll
      for (int r = 0; r < kSsdPart; ++r) {
#pragma unroll
        for (int s = 0; s < kSsdPart; ++s) {
          tile[r][s] = fmaf(shared.left[k][ssd_row(r)], shared.right[k][ssd_column(s)], tile[r][s]);
        }
      }
    }
  }
  __syncthreads();
}

// A chunk of one head. Elements of rows and columns that do not exist are 0.
template <typename T>
class SsdHeadChunk {
 public:
  __device__ SsdHeadChunk(const SsdGeneralArguments& a, SsdShared& shared, int chunk, int head)
      : a_(a), shared_(shared), rows_(a.chunks[chunk]), head_(head) {
    __syncthreads();  // another head no longer reads the sums
    for (int i = static_cast<int>(threadIdx.x); i < kSsdTile; i += kSsdThreads) {
      const int row = min(i, rows_.num_rows - 1);
      shared.sum[i] = a.sums[scalar_at(row)];
      shared.step[i] = i < rows_.num_rows ? a.steps[scalar_at(i)] : 0;
    }
    __syncthreads();
  }

  __device__ int rows() const { return rows_.num_rows; }
  __device__ bool is_first() const { return rows_.slot_before < 0; }
  __device__ bool is_last() const { return rows_.slot_after < 0; }
  __device__ std::int64_t row(int i) const { return std::int64_t{rows_.first_row} + i; }
  __device__ std::int64_t scalar_at(int i) const { return row(i) * a_.num_heads + head_; }

  __device__ float x(int i, int p) const {
    return element(a_.x, a_.x_stride, i, head_, p, a_.head_dim);
  }
  __device__ float b(int i, int n) const {
    return element(a_.b, a_.b_stride, i, group(), n, a_.state_dim);
  }
  __device__ float c(int i, int n) const {
    return element(a_.c, a_.c_stride, i, group(), n, a_.state_dim);
  }
  __device__ float grad(int i, int p) const {
    return element(a_.grad_output, std::int64_t{a_.num_heads} * a_.head_dim, i, head_, p,
                   a_.head_dim);
  }
  // Those before the chunk, and the gradient of those after it.
  __device__ float state(int n, int p) const {
    return state_element(a_.states, rows_.slot_before, n, p);
  }
  __device__ float next_state(int n, int p) const {
    return state_element(a_.states, rows_.slot_after, n, p);
  }
  __device__ float grad_next(int n, int p) const {
    return state_element(a_.grad_states, rows_.slot_after, n, p);
  }

  __device__ float step(int i) const { return shared_.step[i]; }
  __device__ float decay(int i) const { return expf(shared_.sum[i]); }
  __device__ float to_end(int i) const { return expf(shared_.sum[kSsdTile - 1] - shared_.sum[i]); }
  __device__ float ratio(int i, int j) const {
    return j <= i ? expf(shared_.sum[i] - shared_.sum[j]) : 0;
  }

  // shared.square becomes K.
  __device__ void fill_products() const {
    SsdTile tile;
    clear(tile);
    add_ssd_product<true>(
        tile, a_.state_dim, shared_, [&](int i, int n) { return c(i, n); },
        [&](int n, int j) { return b(j, n); });
    for_ssd_tile(
        tile, [&](int i, int j, float& product) { shared_.square[i][j] = product * ratio(i, j); });
    __syncthreads();
  }

  // tile += K u + exp(a) c S, for the columns from `first` on.
  __device__ void add_output(SsdTile& tile, int first) const {
    add_ssd_product<true>(
        tile, kSsdTile, shared_, [&](int i, int j) { return shared_.square[i][j]; },
        [&](int j, int p) { return step(j) * x(j, first + p); });
    if (is_first()) return;
    add_ssd_product<true>(
        tile, a_.state_dim, shared_, [&](int i, int n) { return decay(i) * c(i, n); },
        [&](int n, int p) { return state(n, first + p); });
  }

 private:
  __device__ int group() const { return head_ / (a_.num_heads / a_.num_groups); }
  __device__ float element(const void* from, std::int64_t stride, int i, int part, int column,
                           int width) const {
    if (i >= rows_.num_rows || column >= width) return 0;
    return to_float(
        static_cast<const T*>(from)[row(i) * stride + std::int64_t{part} * width + column]);
  }
  __device__ float state_element(const float* from, int slot, int n, int p) const {
    if (n >= a_.state_dim || p >= a_.head_dim) return 0;
    return from[((std::int64_t{slot} * a_.num_heads + head_) * a_.state_dim + n) * a_.head_dim + p];
  }

  const SsdGeneralArguments& a_;
  SsdShared& shared_;
  DeltaRuleChunkRows rows_;
  int head_;
};

// Writes the elements of left x right that blockIdx.z names, 64 x 64 of them. They go to the state
// of a slot and a head. A sum has `depth` rows of a chunk. Rows and columns of a state are n and p
// of left(n, row) and right(row, p).
template <class Left, class Right>
__device__ void write_ssd_state(const SsdGeneralArguments& a, SsdShared& shared, int depth,
                                const Left& left, const Right& right, float* states, int slot,
                                int head) {
  const int columns = ssd_tiles(a.head_dim);
  const int first_row = static_cast<int>(blockIdx.z) / columns * kSsdTile;
  const int first_column = static_cast<int>(blockIdx.z) % columns * kSsdTile;
  SsdTile tile;
  clear(tile);
  add_ssd_product<false>(
      tile, depth, shared, [&](int n, int row) { return left(first_row + n, row); },
      [&](int row, int p) { return right(row, first_column + p); });
  float* const to = states + (std::int64_t{slot} * a.num_heads + head) * a.state_dim * a.head_dim;
  for_ssd_tile(tile, [&](int n, int p, float& sum) {
    const int row = first_row + n, column = first_column + p;
    if (row < a.state_dim && column < a.head_dim) to[row * a.head_dim + column] = sum;
  });
}

}  // namespace packtrain::device
