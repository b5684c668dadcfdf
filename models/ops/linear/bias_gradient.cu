// Partial sums of columns: one row of them for each range of rows (split rows). column_sums.cu adds
// them in order.
#include <algorithm>

#include "framework/device/cuda/check.h"
#include "models/ops/cuda/launch.h"
#include "models/ops/cuda/vector.cuh"
#include "models/ops/linear/bias_gradient_launch.h"

namespace packtrain {
namespace {

constexpr int kWarps = 8;
constexpr int kLoadsInFlight = 4;
constexpr int kMaxRun = 8;                  // elements of one load
constexpr std::int64_t kNumBlocks = 1024;   // several times the multiprocessors of any GPU
constexpr std::int64_t kMinSplitRows = 64;  // rows of a block

// Block (i, j) sums range j of the rows over columns 32 N i and following. Each warp takes every
// eighth row.
template <typename T, int N>
__global__ void __launch_bounds__(32 * kWarps) partial_sums_kernel(const BiasGradientArguments a) {
  __shared__ float sums[kWarps][32 * N];
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  const std::int64_t column = (std::int64_t{blockIdx.x} * 32 + lane) * N;
  const std::int64_t rows = (a.num_rows + a.num_splits - 1) / a.num_splits;
  const std::int64_t begin = blockIdx.y * rows;
  const std::int64_t end = begin + rows < a.num_rows ? begin + rows : a.num_rows;
  const T* values = static_cast<const T*>(a.grad_output) + column;
  float sum[N] = {};
  if (column < a.num_columns) {
    for (std::int64_t row = begin + warp; row < end; row += kWarps * kLoadsInFlight) {
      float loaded[kLoadsInFlight][N] = {};
#pragma unroll
      for (int u = 0; u < kLoadsInFlight; ++u) {
        const std::int64_t here = row + u * kWarps;
        if (here < end) device::load(values + here * a.num_columns, loaded[u]);
      }
#pragma unroll
      for (int u = 0; u < kLoadsInFlight; ++u) {
#pragma unroll
        for (int i = 0; i < N; ++i) sum[i] += loaded[u][i];
      }
    }
  }
#pragma unroll
  for (int i = 0; i < N; ++i) sums[warp][i * 32 + lane] = sum[i];
  __syncthreads();
  for (int c = threadIdx.x; c < 32 * N; c += blockDim.x) {
    float total = 0;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) total += sums[w][c];
    const std::int64_t to = (std::int64_t{blockIdx.x} * 32 + c % 32) * N + c / 32;
    if (to < a.num_columns) a.partial_sums[blockIdx.y * a.num_columns + to] = total;
  }
}

template <typename T, int N>
void launch_partial_sums(const BiasGradientArguments& a, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>((a.num_columns + 32 * N - 1) / (32 * N)),
                  static_cast<unsigned>(a.num_splits));
  partial_sums_kernel<T, N><<<grid, 32 * kWarps, 0, stream>>>(a);
}

template <typename T>
void launch_partial_sums(const BiasGradientArguments& a, cudaStream_t stream) {
  constexpr int kVecSize = 16 / sizeof(T);
  if (can_vectorize(a.num_columns, sizeof(T), a.grad_output)) {
    launch_partial_sums<T, kVecSize>(a, stream);
  } else {
    launch_partial_sums<T, 1>(a, stream);
  }
}

}  // namespace

std::int64_t num_bias_gradient_splits(std::int64_t num_rows, std::int64_t num_columns) {
  const std::int64_t column_blocks = (num_columns + 32 * kMaxRun - 1) / (32 * kMaxRun);
  const std::int64_t wanted = kNumBlocks / column_blocks;
  return std::max<std::int64_t>(1, std::min(wanted, num_rows / kMinSplitRows));
}

void launch_bias_gradient(const BiasGradientArguments& arguments, void* stream) {
  const auto cuda_stream = static_cast<cudaStream_t>(stream);
  if (arguments.dtype == DataType::kBFloat16) {
    launch_partial_sums<__nv_bfloat16>(arguments, cuda_stream);
  } else {
    launch_partial_sums<float>(arguments, cuda_stream);
  }
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
  ColumnSumsArguments sums;
  sums.partials = arguments.partial_sums;
  sums.num_partials = arguments.num_splits;
  sums.num_columns = arguments.num_columns;
  sums.targets[0] = arguments.target;
  launch_column_sums(sums, stream);
}

}  // namespace packtrain
