// Forward of QK-norm. A head has blockDim.x threads, a power of two up to 32. Its sums are warp
// shuffles and need no shared memory. Each thread has M slots of the head (heads.cuh). A block has
// blockDim.y heads in flight. Its tile of a few tokens shares one table of sines and cosines.
#pragma once

#include "models/ops/cuda/heads.cuh"
#include "models/ops/qk_norm/qk_norm_launch.h"

namespace packtrain::device {

constexpr int kQkThreads = 256;  // of a block in forward

// The vectors of a head that a thread has: two for each slot.
template <typename T, int N, int M>
struct HeadShare {
  Vec<T, N> runs[M][2];
};

template <typename T, int N, int M>
class Head {
 public:
  __device__ explicit Head(const QkNormArguments& a) : a_(a), num_slots_(a.head_dim / (2 * N)) {}

  __device__ int slot(int m) const { return m * blockDim.x + threadIdx.x; }
  __device__ bool holds(int m) const { return slot(m) < num_slots_; }
  __device__ int run(int m, int which) const {
    return which == 0 ? first_run<N>(a_.angles, slot(m)) : second_run<N>(a_.angles, slot(m));
  }

  // Elements that the thread does not hold are 0. All are 0 if not `present`.
  __device__ HeadShare<T, N, M> read(const T* head, bool present) const {
    HeadShare<T, N, M> share;
#pragma unroll
    for (int m = 0; m < M; ++m) {
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        share.runs[m][k] = present && holds(m) ? load_vec<N>(head + run(m, k)) : Vec<T, N>{};
      }
    }
    return share;
  }

  __device__ void write(const HeadShare<T, N, M>& share, T* head) const {
#pragma unroll
    for (int m = 0; m < M; ++m) {
      if (!holds(m)) continue;
      store_vec(share.runs[m][0], head + run(m, 0));
      store_vec(share.runs[m][1], head + run(m, 1));
    }
  }

  // Sum over the threads of the head.
  __device__ static float sum(float value) {
    for (int offset = blockDim.x / 2; offset > 0; offset /= 2) {
      value += __shfl_xor_sync(~0U, value, offset);
    }
    return value;
  }

 private:
  const QkNormArguments& a_;
  int num_slots_;
};

// A tile of tokens.
struct Tile {
  std::int64_t first_row;
  int num_rows;

  __device__ Tile(const QkNormArguments& a, std::int64_t first, int largest_num_rows)
      : first_row(first) {
    const std::int64_t rows_left = a.num_rows - first;
    num_rows = rows_left < largest_num_rows ? static_cast<int>(rows_left) : largest_num_rows;
  }
};

// Head number `index` of a tile, where each token has `num_heads` heads. Beyond the last head,
// present is false and the indices are those of the first head, which is safe to address.
struct Item {
  bool present;
  int tile_row;
  int head;
  std::int64_t row;

  __device__ Item(const Tile& tile, int num_heads, int index)
      : present(index < tile.num_rows * num_heads),
        tile_row(present ? index / num_heads : 0),
        head(present ? index - tile_row * num_heads : 0),
        row(tile.first_row + tile_row) {}
};

template <typename T, int N, int M>
__device__ void forward_head(const QkNormArguments& a, const Head<T, N, M>& held, const Item& item,
                             const HeadShare<T, N, M>& x, const Angles<N>& angles) {
  const int num_heads = a.qkv.num_query_heads + a.qkv.num_key_heads;
  float square = 0;
#pragma unroll
  for (int m = 0; m < M; ++m) {
    for (int k = 0; k < 2; ++k) {
      float values[N];
      unpack(x.runs[m][k], values);
#pragma unroll
      for (int i = 0; i < N; ++i) square += values[i] * values[i];
    }
  }
  square = held.sum(square);
  if (!item.present) return;
  const float inverse = rsqrtf(square / static_cast<float>(a.head_dim) + a.epsilon);
  const std::int64_t index = item.row * num_heads + item.head;
  if (threadIdx.x == 0) a.inverse_rms[index] = inverse;
  const auto* weight =
      static_cast<const T*>(item.head < a.qkv.num_query_heads ? a.query_weight : a.key_weight);
  T* to = static_cast<T*>(a.output) + (item.row * a.num_output_heads + item.head) * a.head_dim;
#pragma unroll
  for (int m = 0; m < M; ++m) {
    if (!held.holds(m)) continue;
    float values[2][N];
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      float w[N];
      unpack(x.runs[m][k], values[k]);
      load(weight + held.run(m, k), w);
#pragma unroll
      for (int i = 0; i < N; ++i) values[k][i] *= inverse * (w[i] + a.weight_offset);
    }
    rotate(a.angles, angles, held.slot(m), values[0], values[1]);
    store(values[0], to + held.run(m, 0));
    store(values[1], to + held.run(m, 1));
  }
}

template <typename T, int N, int M>
__global__ void __launch_bounds__(kQkThreads)
    qk_norm_forward_kernel(const QkNormArguments a, const int tile_rows) {
  extern __shared__ __align__(16) float table[];
  const Head<T, N, M> held(a);
  const Tile tile(a, std::int64_t{tile_rows} * blockIdx.x, tile_rows);
  const int num_heads = a.qkv.num_query_heads + a.qkv.num_key_heads;
  const auto read = [&](const Item& item) {
    return held.read(head_of<T>(a.qkv, item.row, item.head), item.present);
  };
  // Software pipeline: a head is loaded while the one before it is computed, and the first one
  // while the table is written.
  HeadShare<T, N, M> coming = read(Item(tile, num_heads, threadIdx.y));
  write_angles<N>(a.angles, tile.first_row, tile.num_rows, threadIdx.y * blockDim.x + threadIdx.x,
                  blockDim.x * blockDim.y, table);
  __syncthreads();
  for (int base = 0; base < tile.num_rows * num_heads; base += blockDim.y) {
    const Item item(tile, num_heads, base + threadIdx.y);
    const HeadShare<T, N, M> x = coming;
    coming = read(Item(tile, num_heads, base + blockDim.y + threadIdx.y));
    forward_head(a, held, item, x, angles_of<N>(a.angles, table, item.tile_row, tile.num_rows));
  }
}

}  // namespace packtrain::device
