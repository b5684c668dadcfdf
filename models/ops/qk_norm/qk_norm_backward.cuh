// Backward: a thread holds the same columns of every head it meets, so it sums the weights'
// gradients in registers, queries' and keys' apart.
#pragma once

#include "models/ops/cuda/kernel_chain.cuh"
#include "models/ops/qk_norm/qk_norm.cuh"

namespace packtrain::device {

template <int N, int M>
using WeightSums = float[M][2][N];

// The gradient of a head turned back, in the place of grad; returns the sum of g w n over the
// thread's share and adds g n to `sums`, n = x inverse.
template <typename T, int N, int M>
__device__ float project_head(const QkNormArguments& a, const Head<T, N, M>& held,
                              const HeadShare<T, N, M>& x, float inverse, const T* weight,
                              const Angles<N>& angles, float (&grad)[M][2][N],
                              WeightSums<N, M>& sums) {
  float product = 0;
#pragma unroll
  for (int m = 0; m < M; ++m) {
    if (!held.holds(m)) continue;
    turn(a.angles, angles, held.slot(m), grad[m][0], grad[m][1]);
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      float values[N];
      float w[N];
      unpack(x.runs[m][k], values);
      load(weight + held.run(m, k), w);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const float gn = grad[m][k][i] * values[i] * inverse;
        sums[m][k][i] += gn;
        grad[m][k][i] *= w[i] + a.weight_offset;
        product += gn * (w[i] + a.weight_offset);
      }
    }
  }
  return product;
}

// dx = inverse (g w - n mean(g w n)); `grad` is g w.
template <typename T, int N, int M>
__device__ void write_head(const Head<T, N, M>& held, const HeadShare<T, N, M>& x, float inverse,
                           float mean, const float (&grad)[M][2][N], T* to) {
#pragma unroll
  for (int m = 0; m < M; ++m) {
    if (!held.holds(m)) continue;
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      float values[N];
      unpack(x.runs[m][k], values);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        values[i] = inverse * (grad[m][k][i] - values[i] * inverse * mean);
      }
      store(values, to + held.run(m, k));
    }
  }
}

// What backward reads of a head.
template <typename T, int N, int M>
struct HeadInputs {
  HeadShare<T, N, M> x;
  HeadShare<T, N, M> grad;
  float inverse;
};

// Heads of a tile that share a weight: queries, or keys.
struct HeadRange {
  int first;
  int count;
  const void* weight;
};

template <typename T, int N, int M>
__device__ HeadInputs<T, N, M> read_inputs(const QkNormArguments& a, const Head<T, N, M>& held,
                                           const HeadRange& range, const Item& item) {
  const int head = range.first + item.head;
  const int num_normed = a.grads.num_query_heads + a.grads.num_key_heads;
  return {held.read(head_of<T>(a.qkv, item.row, head), item.present),
          held.read(head_of<T>(a.grads, item.row, head), item.present),
          a.inverse_rms[item.row * num_normed + head]};
}

// `coming` are the inputs of the thread's first head; a head is asked for while the one before it
// is worked on.
template <typename T, int N, int M>
__device__ void backward_heads(const QkNormArguments& a, const Head<T, N, M>& held,
                               const Tile& tile, const float* table, const HeadRange& range,
                               HeadInputs<T, N, M> coming, WeightSums<N, M>& sums) {
  const int num_all = a.grads.num_query_heads + a.grads.num_key_heads + a.grads.num_value_heads;
  for (int base = 0; base < tile.num_rows * range.count; base += blockDim.y) {
    const Item item(tile, range.count, base + threadIdx.y);
    const HeadInputs<T, N, M> inputs = coming;
    coming = read_inputs(a, held, range, Item(tile, range.count, base + blockDim.y + threadIdx.y));
    float grad[M][2][N];
#pragma unroll
    for (int m = 0; m < M; ++m) {
      unpack(inputs.grad.runs[m][0], grad[m][0]);
      unpack(inputs.grad.runs[m][1], grad[m][1]);
    }
    const float product =
        project_head(a, held, inputs.x, inputs.inverse, static_cast<const T*>(range.weight),
                     angles_of<N>(a.angles, table, item.tile_row, tile.num_rows), grad, sums);
    const float mean = held.sum(product) / static_cast<float>(a.head_dim);
    T* to = static_cast<T*>(a.output) + (item.row * num_all + range.first + item.head) * a.head_dim;
    if (item.present) write_head(held, inputs.x, inputs.inverse, mean, grad, to);
  }
}

template <typename T, int N, int M>
__device__ void copy_values(const QkNormArguments& a, const Head<T, N, M>& held, const Tile& tile) {
  const int num_heads = a.grads.num_value_heads;
  const int first_head = a.grads.num_query_heads + a.grads.num_key_heads;
  for (int item = threadIdx.y; item < tile.num_rows * num_heads; item += blockDim.y) {
    const int tile_row = item / num_heads;
    const int head = first_head + item - tile_row * num_heads;
    const std::int64_t row = tile.first_row + tile_row;
    const HeadShare<T, N, M> g = held.read(head_of<T>(a.grads, row, head), true);
    T* to = static_cast<T*>(a.output) + (row * (first_head + num_heads) + head) * a.head_dim;
#pragma unroll
    for (int m = 0; m < M; ++m) {
      if (!held.holds(m)) continue;
      write_run(g.runs[m][0], to + held.run(m, 0));
      write_run(g.runs[m][1], to + held.run(m, 1));
    }
  }
}

// Adds the sums of the block's threads up in order; `shared` [warps, head_dim]; to `out`
// [head_dim].
template <typename T, int N, int M>
__device__ void write_weight_sums(const QkNormArguments& a, const Head<T, N, M>& held,
                                  WeightSums<N, M>& sums, float* shared, float* out) {
  const int thread = threadIdx.y * blockDim.x + threadIdx.x;
  float* mine = shared + thread / 32 * a.head_dim;
#pragma unroll
  for (int m = 0; m < M; ++m) {
#pragma unroll
    for (int k = 0; k < 2; ++k) {
#pragma unroll
      for (int i = 0; i < N; ++i) {
        for (int offset = blockDim.x; offset < 32; offset *= 2) {
          sums[m][k][i] += __shfl_xor_sync(~0U, sums[m][k][i], offset);
        }
        const bool leads = thread % 32 < static_cast<int>(blockDim.x);
        if (leads && held.holds(m)) mine[held.run(m, k) + i] = sums[m][k][i];
      }
    }
  }
  __syncthreads();
  for (int c = thread; c < a.head_dim; c += kQkThreads) {
    float sum = 0;
    for (int warp = 0; warp < kQkThreads / 32; ++warp) sum += shared[warp * a.head_dim + c];
    out[c] = sum;
  }
  __syncthreads();
}

template <typename T, int N, int M>
__global__ void __launch_bounds__(kQkThreads, 2)
    qk_norm_backward_kernel(const QkNormArguments a, const int tile_rows) {
  extern __shared__ __align__(16) float shared[];  // the table, and later the sums
  const Head<T, N, M> held(a);
  const int thread = threadIdx.y * blockDim.x + threadIdx.x;
  WeightSums<N, M> query_sums = {};
  WeightSums<N, M> key_sums = {};
  const HeadRange queries{0, a.grads.num_query_heads, a.query_weight};
  const HeadRange keys{queries.count, a.grads.num_key_heads, a.key_weight};
  const std::int64_t stride = std::int64_t{tile_rows} * gridDim.x;
  for (std::int64_t first = std::int64_t{tile_rows} * blockIdx.x; first < a.num_rows;
       first += stride) {
    const Tile tile(a, first, tile_rows);
    const HeadInputs<T, N, M> query =
        read_inputs(a, held, queries, Item(tile, queries.count, threadIdx.y));
    __syncthreads();  // the last tile's table is no longer read
    write_angles<N>(a.angles, first, tile.num_rows, thread, kQkThreads, shared);
    __syncthreads();
    backward_heads(a, held, tile, shared, queries, query, query_sums);
    const HeadInputs<T, N, M> key = read_inputs(a, held, keys, Item(tile, keys.count, threadIdx.y));
    backward_heads(a, held, tile, shared, keys, key, key_sums);
    copy_values(a, held, tile);
  }
  allow_next_kernel();
  if (a.partials == nullptr) return;
  __syncthreads();
  float* out = a.partials + std::int64_t{blockIdx.x} * 2 * a.head_dim;
  write_weight_sums(a, held, query_sums, shared, out);
  write_weight_sums(a, held, key_sums, shared, out + a.head_dim);
}

}  // namespace packtrain::device
