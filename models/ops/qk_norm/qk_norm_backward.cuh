// Backward of QK-norm. Blocks (b, 0) have the queries of a range of tokens, (b, 1) their keys and
// (b, 2) their values. A thread holds the same columns of every head, so that it can sum the
// gradient of one weight in registers.
#pragma once

#include "models/ops/cuda/dependent_launch.cuh"
#include "models/ops/qk_norm/head_copies.cuh"

namespace packtrain::device {

constexpr int kQkValuesInFlight = 4;

template <int N, int M>
using WeightSums = float[M][2][N];

// Rotates the gradient of a head back and leaves g w in `grad`. Returns this thread's part of the
// sum of g w x. Adds g n to `sums`, where n = x inverse.
template <typename T, int N, int M>
__device__ float project_head(const QkNormArguments& a, const Head<T, N, M>& held,
                              const HeadInputs<T, N, M>& head, const HeadShare<T, N, M>& weight,
                              const Angles<N>& angles, WeightSums<N, M>& grad,
                              WeightSums<N, M>& sums) {
  float product = 0;
#pragma unroll
  for (int m = 0; m < M; ++m) {
    unpack(head.grad.runs[m][0], grad[m][0]);
    unpack(head.grad.runs[m][1], grad[m][1]);
    if (!held.holds(m)) continue;
    rotate(a.angles, angles, held.slot(m), grad[m][0], grad[m][1]);
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      float x[N];
      float w[N];
      unpack(head.x.runs[m][k], x);
      unpack(weight.runs[m][k], w);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        sums[m][k][i] += grad[m][k][i] * head.inverse * x[i];
        grad[m][k][i] *= w[i] + a.weight_offset;
        product += grad[m][k][i] * x[i];
      }
    }
  }
  return product;
}

// dx = inverse (g w - n mean(g w n)). `grad` is g w, and `mean` is the mean of g w x.
template <typename T, int N, int M>
__device__ void write_head(const Head<T, N, M>& held, const HeadInputs<T, N, M>& head, float mean,
                           const WeightSums<N, M>& grad, T* to) {
  const float slope = head.inverse * head.inverse * head.inverse * mean;
#pragma unroll
  for (int m = 0; m < M; ++m) {
    if (!held.holds(m)) continue;
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      float x[N];
      unpack(head.x.runs[m][k], x);
#pragma unroll
      for (int i = 0; i < N; ++i) x[i] = head.inverse * grad[m][k][i] - x[i] * slope;
      store(x, to + held.run(m, k));
    }
  }
}

// Gradients of the queries or the keys of the block's tokens.
template <typename T, int N, int M>
__device__ void backward_heads(const QkNormArguments& a, const Head<T, N, M>& held,
                               const HeadRange& range, const Tile& tokens, void* shared,
                               WeightSums<N, M>& sums) {
  const int thread = threadIdx.y * blockDim.x + threadIdx.x;
  const int num_all = a.grads.num_query_heads + a.grads.num_key_heads + a.grads.num_value_heads;
  HeadCopies<T, N, M> copies(a, held, range, tokens, shared);
  auto* table = static_cast<float*>(copies.rest_of_shared());
  const HeadShare<T, N, M> weight = held.read(static_cast<const T*>(range.weight), true);
  for (int first = 0; first < tokens.num_rows; first += range.tile_rows) {
    const int num_rows = min(range.tile_rows, tokens.num_rows - first);
    __syncthreads();  // the table of the last tile is no longer read
    write_angles<N>(a.angles, tokens.first_row + first, num_rows, thread, kQkBackwardThreads,
                    table);
    __syncthreads();
    // Tiles are whole rounds except the last one. Threads without a head stay in the loop, because
    // shuffles need all lanes.
    for (int item = 0; item < num_rows * range.count; item += blockDim.y) {
      const HeadInputs<T, N, M> head = copies.take();
      const int row = head.present ? head.row - first : 0;
      WeightSums<N, M> grad;
      const float product = project_head(a, held, head, weight,
                                         angles_of<N>(a.angles, table, row, num_rows), grad, sums);
      const float mean = held.sum(product) / static_cast<float>(a.head_dim);
      if (!head.present) continue;
      const std::int64_t place = (tokens.first_row + head.row) * num_all + range.first + head.head;
      write_head(held, head, mean, grad, static_cast<T*>(a.output) + place * a.head_dim);
    }
  }
  cp_async_wait_group<0>();
}

template <typename T, int N, int M>
__device__ void copy_values(const QkNormArguments& a, const Head<T, N, M>& held,
                            const Tile& tokens) {
  const int num_heads = a.grads.num_value_heads;
  const int first_head = a.grads.num_query_heads + a.grads.num_key_heads;
  const int num_items = tokens.num_rows * num_heads;
  for (int base = threadIdx.y; base < num_items; base += kQkValuesInFlight * blockDim.y) {
    HeadShare<T, N, M> values[kQkValuesInFlight];
#pragma unroll
    for (int u = 0; u < kQkValuesInFlight; ++u) {
      const Item item(tokens, num_heads, base + u * blockDim.y);
      values[u] = held.read(head_of<T>(a.grads, item.row, first_head + item.head), item.present);
    }
#pragma unroll
    for (int u = 0; u < kQkValuesInFlight; ++u) {
      const Item item(tokens, num_heads, base + u * blockDim.y);
      if (!item.present) break;
      const std::int64_t place = item.row * (first_head + num_heads) + first_head + item.head;
      held.write(values[u], static_cast<T*>(a.output) + place * a.head_dim);
    }
  }
}

// Sums over the threads of the block in a fixed order, so that the result is deterministic.
// `shared` is [warps, head_dim] and `out` [head_dim].
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
  for (int c = thread; c < a.head_dim; c += kQkBackwardThreads) {
    float sum = 0;
    for (int warp = 0; warp < kQkBackwardThreads / 32; ++warp) sum += shared[warp * a.head_dim + c];
    out[c] = sum;
  }
}

// Dynamic shared memory holds the heads in flight and the table, and then the sums.
template <typename T, int N, int M>
__global__ void __launch_bounds__(kQkBackwardThreads, kQkBackwardBlocks)
    qk_norm_backward_kernel(const QkBackwardArguments backward) {
  extern __shared__ __align__(16) unsigned char shared[];
  const QkNormArguments& a = backward.operands;
  grid_dependency_synchronize();
  const Head<T, N, M> held(a);
  const Tile tokens(a, std::int64_t{backward.block_rows} * blockIdx.x, backward.block_rows);
  if (blockIdx.y == 2) {
    copy_values(a, held, tokens);
    return;
  }
  WeightSums<N, M> sums = {};
  backward_heads(a, held, HeadRange(backward, /*keys=*/blockIdx.y == 1), tokens, shared, sums);
  // The kernel that sums the partials may start now. It waits for the end of this one.
  trigger_programmatic_launch();
  if (a.partials == nullptr) return;
  __syncthreads();
  write_weight_sums(a, held, sums, reinterpret_cast<float*>(shared),
                    a.partials + (std::int64_t{blockIdx.x} * 2 + blockIdx.y) * a.head_dim);
}

}  // namespace packtrain::device
