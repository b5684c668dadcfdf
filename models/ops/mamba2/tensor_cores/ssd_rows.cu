// The output of each chunk, and the gradients of its x and steps, from the states between chunks.
// A block of threads has a chunk and a head, a warp 16 of its rows. The formulas are those of
// ssd.h.
#include "framework/device/cuda/check.h"
#include "models/ops/cuda/warp_sum.cuh"
#include "models/ops/mamba2/tensor_cores/ssd_chunk_tiles.cuh"

namespace packtrain {
namespace {

using device::kSsdSquareBytes;
using device::kSsdWarpThreads;
using device::SsdSquare;

constexpr int kRows = kSsdStateTile;
constexpr int kSumTiles = kRows / 8;

// Starts copies of the N rows of a head's state and of 64 of its columns.
__device__ void copy_state(const SsdTensorCoreArguments& a, const __nv_bfloat16* from, int p,
                           unsigned char* to) {
  device::copy_square_rows<kSsdWarpThreads>(from + p, a.head_dim, a.state_dim, a.head_dim - p,
                                            a.state_tiles, to);
}

// Places in shared memory, in bytes: [rows of b or c] [state] x, and backward the gradient.
struct RowsPlaces {
  int state;
  int x;
  int grad;
  int bytes;

  __host__ __device__ explicit RowsPlaces(int state_tiles)
      : state(state_tiles * kSsdSquareBytes),
        x(2 * state),
        grad(x + kSsdSquareBytes),
        bytes(grad + kSsdSquareBytes) {}
};

// sums += rows of b or c times the state.
__device__ void multiply_state(const SsdTensorCoreArguments& a, std::uint32_t shared,
                               const RowsPlaces& places, float (&sums)[kSumTiles][4]) {
  const int tiles = a.state_tiles;
  for (int tile = 0; tile < tiles; ++tile) {
    device::multiply_tiles<SsdSquare, false, SsdSquare, true>(
        shared + tile * kSsdSquareBytes, device::warp_row(),
        shared + places.state + tile * kSsdSquareBytes, 0, 0, kRows / 16, sums);
  }
}

// words = exp(a_i - a_j) c_i b_j d_j for j <= i.
__device__ void make_products(const device::SsdScores<false>& scores,
                              const device::SsdRowValues& values,
                              std::uint32_t (&words)[kRows / 16][4]) {
#pragma unroll
  for (int k = 0; k < kRows / 16; ++k) {
    if (!scores.has_step(k)) continue;
#pragma unroll
    for (int word = 0; word < 4; ++word) {
      const int i = device::left_row(device::warp_row(), word);
      const int j = device::left_column(16 * k, word);
      const float2 score = scores.pairs[k][word];
      words[k][word] =
          device::bfloat16_pair(score.x * values.ratio(i, j) * values.steps[j],
                                score.y * values.ratio(i, j + 1) * values.steps[j + 1]);
    }
  }
}

// Starts copies of x, then of the rows of c and the state.
__device__ void load_output_tiles(const device::SsdChunkHead& chunk, const RowsPlaces& places,
                                  int p, unsigned char* shared) {
  const SsdTensorCoreArguments& a = chunk.a;
  const int present = chunk.rows.num_rows;
  device::copy_squares<kSsdWarpThreads>(chunk.x() + p, a.x_stride, present, a.head_dim - p, 1,
                                        shared + places.x);
  device::cp_async_commit_group();
  if (!chunk.is_first()) {
    device::copy_squares<kSsdWarpThreads>(chunk.c(), a.c_stride, present, a.state_dim,
                                          a.state_tiles, shared);
    copy_state(a, device::elements(a.slot_states) + chunk.state_offset(chunk.rows.slot_before), p,
               shared + places.state);
  }
  device::cp_async_commit_group();
}

// A block of threads also has 64 columns.
__global__ void __launch_bounds__(kSsdWarpThreads)
    ssd_tensor_output_kernel(const __grid_constant__ SsdTensorCoreArguments a) {
  extern __shared__ __align__(1024) unsigned char shared[];
  __shared__ device::SsdRowValues values;
  const device::SsdChunkHead chunk(a, static_cast<int>(blockIdx.x), static_cast<int>(blockIdx.y));
  const RowsPlaces places(a.state_tiles);
  const int p = static_cast<int>(blockIdx.z) * kSsdStateTile;
  device::SsdScores<false> scores;
  values.copy(chunk);
  load_output_tiles(chunk, places, p, shared);
  scores.load(chunk);
  device::cp_async_wait_group<1>();
  __syncthreads();  // values and x are there
  std::uint32_t words[kRows / 16][4];
  make_products(scores, values, words);
  float sums[kSumTiles][4] = {};
  const std::uint32_t address = device::shared_address(shared);
  const int m = device::warp_row();
  if (!chunk.is_first()) {
    device::cp_async_wait_group<0>();
    __syncthreads();
    multiply_state(a, address, places, sums);
    device::for_lane_rows(
        m, [&](int row, int half) { device::scale_row(sums, half, __expf(values.sums[row])); });
  }
#pragma unroll
  for (int k = 0; k < kRows / 16; ++k) {
    if (scores.has_step(k)) {
      device::multiply_words<SsdSquare>(words[k], address + places.x, 16 * k, 0, sums);
    }
  }
  const float skip = a.skip[chunk.head];
  device::for_lane_rows(m, [&](int row, int half) {
#pragma unroll
    for (int t = 0; t < kSumTiles; ++t) {
      const float2 x = device::load_pair<SsdSquare>(shared + places.x, row, 0, t);
      sums[t][2 * half] = fmaf(skip, x.x, sums[t][2 * half]);
      sums[t][2 * half + 1] = fmaf(skip, x.y, sums[t][2 * half + 1]);
    }
  });
  device::write_sums(sums, m, 0, device::elements(a.output) + chunk.output_offset() + p,
                     chunk.value_stride(), chunk.rows.num_rows, a.head_dim - p);
}

// du = K^T e + exp(a_L - a) b dS';   dx = d du + D e;   dd = du x;   dD = sum of e x.
class SsdRowGradients {
 public:
  __device__ SsdRowGradients(const SsdTensorCoreArguments& a, unsigned char* shared,
                             device::SsdRowValues& values)
      : a_(a),
        shared_(shared),
        address_(device::shared_address(shared)),
        places_(a.state_tiles),
        chunk_(a, static_cast<int>(blockIdx.x), static_cast<int>(blockIdx.y)),
        values_(values) {}

  __device__ void run() {
    values_.copy(chunk_);
    for (int p = 0; p < a_.head_dim; p += kSsdStateTile) {
      if (p > 0) __syncthreads();  // the columns before are read
      load(p);
      if (p == 0) scores_.load(chunk_);
      float sums[kSumTiles][4] = {};
      device::cp_async_wait_group<0>();
      __syncthreads();
      if (p == 0) make_products();
      add_grad_inputs(sums);
      write_grad_x(sums, p);
    }
    write_row_sums();
  }

 private:
  __device__ void load(int p) {
    const int present = chunk_.rows.num_rows;
    device::copy_squares<kSsdWarpThreads>(chunk_.x() + p, a_.x_stride, present, a_.head_dim - p, 1,
                                          shared_ + places_.x);
    device::copy_squares<kSsdWarpThreads>(
        device::elements(a_.grad_output) + chunk_.output_offset() + p, chunk_.value_stride(),
        present, a_.head_dim - p, 1, shared_ + places_.grad);
    if (!chunk_.is_last()) {
      if (p == 0) {
        device::copy_squares<kSsdWarpThreads>(chunk_.b(), a_.b_stride, present, a_.state_dim,
                                              a_.state_tiles, shared_);
      }
      copy_state(a_, device::elements(a_.slot_grads) + chunk_.state_offset(chunk_.rows.slot_after),
                 p, shared_ + places_.state);
    }
    device::cp_async_commit_group();
  }

  // K^T.
  __device__ void make_products() {
#pragma unroll
    for (int k = 0; k < kRows / 16; ++k) {
      if (!scores_.has_step(k)) continue;
#pragma unroll
      for (int word = 0; word < 4; ++word) {
        const int j = device::left_row(device::warp_row(), word);
        const int i = device::left_column(16 * k, word);
        const float2 score = scores_.pairs[k][word];
        products_[k][word] =
            device::bfloat16_pair(score.x * values_.ratio(i, j), score.y * values_.ratio(i + 1, j));
      }
    }
  }

  __device__ void add_grad_inputs(float (&sums)[kSumTiles][4]) const {
    if (!chunk_.is_last()) {
      multiply_state(a_, address_, places_, sums);
      device::for_lane_rows(device::warp_row(), [&](int row, int half) {
        device::scale_row(sums, half, values_.to_end(row));
      });
    }
#pragma unroll
    for (int k = 0; k < kRows / 16; ++k) {
      if (scores_.has_step(k)) {
        device::multiply_words<SsdSquare>(products_[k], address_ + places_.grad, 16 * k, 0, sums);
      }
    }
  }

  __device__ void write_grad_x(float (&sums)[kSumTiles][4], int p) {
    const int m = device::warp_row();
    const float skip = a_.skip[chunk_.head];
    device::for_lane_rows(m, [&](int row, int half) {
#pragma unroll
      for (int t = 0; t < kSumTiles; ++t) {
        const float2 x = device::load_pair<SsdSquare>(shared_ + places_.x, row, 0, t);
        const float2 grad = device::load_pair<SsdSquare>(shared_ + places_.grad, row, 0, t);
        float* const sum = &sums[t][2 * half];
        step_sums_[half] = fmaf(sum[0], x.x, fmaf(sum[1], x.y, step_sums_[half]));
        skip_sum_ = fmaf(grad.x, x.x, fmaf(grad.y, x.y, skip_sum_));
        sum[0] = fmaf(values_.steps[row], sum[0], skip * grad.x);
        sum[1] = fmaf(values_.steps[row], sum[1], skip * grad.y);
      }
    });
    device::write_sums(sums, m, 0,
                       device::elements(a_.grad_x) + chunk_.rows.first_row * a_.grad_x_stride +
                           std::int64_t{chunk_.head} * a_.head_dim + p,
                       a_.grad_x_stride, chunk_.rows.num_rows, a_.head_dim - p);
  }

  __device__ void write_row_sums() const {
    __shared__ float of_warps[kSsdWarpThreads / 32];
    device::for_lane_rows(device::warp_row(), [&](int row, int half) {
      const float sum = device::quad_sum(step_sums_[half]);
      if (row >= chunk_.rows.num_rows || device::delta_lane() % 4 != 0) return;
      a_.grad_steps[(std::int64_t{chunk_.rows.first_row} + row) * a_.num_heads + chunk_.head] = sum;
    });
    const float sum = device::warp_sum(skip_sum_);
    if (device::delta_lane() == 0) of_warps[device::delta_warp()] = sum;
    __syncthreads();
    if (threadIdx.x != 0) return;
    a_.skip_partials[std::int64_t{blockIdx.x} * a_.num_heads + chunk_.head] =
        of_warps[0] + of_warps[1] + of_warps[2] + of_warps[3];
  }

  const SsdTensorCoreArguments& a_;
  unsigned char* shared_;
  std::uint32_t address_;
  RowsPlaces places_;
  device::SsdChunkHead chunk_;
  device::SsdRowValues& values_;
  device::SsdScores<true> scores_;
  std::uint32_t products_[kRows / 16][4];
  float step_sums_[2] = {};  // of this lane's two rows
  float skip_sum_ = 0;
};

__global__ void __launch_bounds__(kSsdWarpThreads, 4)
    ssd_tensor_grad_rows_kernel(const __grid_constant__ SsdTensorCoreArguments a) {
  extern __shared__ __align__(1024) unsigned char shared[];
  __shared__ device::SsdRowValues values;
  SsdRowGradients(a, shared, values).run();
}

}  // namespace

void launch_ssd_tensor_output(const SsdTensorCoreArguments& arguments, void* stream) {
  const int bytes = RowsPlaces(arguments.state_tiles).grad;
  PACKTRAIN_CUDA_CHECK(cudaFuncSetAttribute(ssd_tensor_output_kernel,
                                            cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  const dim3 grid(static_cast<unsigned>(arguments.num_chunks),
                  static_cast<unsigned>(arguments.num_heads),
                  static_cast<unsigned>(arguments.column_tiles));
  ssd_tensor_output_kernel<<<grid, kSsdWarpThreads, bytes, static_cast<cudaStream_t>(stream)>>>(
      arguments);
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

void launch_ssd_tensor_grad_rows(const SsdTensorCoreArguments& arguments, void* stream) {
  const int bytes = RowsPlaces(arguments.state_tiles).bytes;
  PACKTRAIN_CUDA_CHECK(cudaFuncSetAttribute(ssd_tensor_grad_rows_kernel,
                                            cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  const dim3 grid(static_cast<unsigned>(arguments.num_chunks),
                  static_cast<unsigned>(arguments.num_heads));
  ssd_tensor_grad_rows_kernel<<<grid, kSsdWarpThreads, bytes, static_cast<cudaStream_t>(stream)>>>(
      arguments);
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

}  // namespace packtrain
