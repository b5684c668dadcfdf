// A block sums kColumns columns. Each thread takes N columns of every n-th row of partial sums, so
// that many loads are in flight. Threads and warps are then summed in a fixed order.
#include "models/ops/cuda/column_sums.h"

#include "framework/device/cuda/check.h"
#include "models/ops/cuda/dependent_launch.cuh"
#include "models/ops/cuda/launch.h"
#include "models/ops/cuda/vector.cuh"

namespace packtrain {
namespace {

constexpr int kColumns = 32;
constexpr int kThreads = 512;
constexpr int kWarps = kThreads / 32;
constexpr int kLoadsInFlight = 8;

template <typename T>
__device__ void write(const GradientTarget& target, std::int64_t column, float sum) {
  T* grad = static_cast<T*>(target.grad) + column;
  if (target.accumulate) sum += device::to_float(*grad);
  *grad = device::from_float<T>(sum);
}

// Adds every `step`-th row of partial sums, N columns from `column` on.
template <int N>
__device__ void sum_rows(const ColumnSumsArguments& a, std::int64_t column, int first, int step,
                         float (&sum)[N]) {
  if (column >= a.num_columns) return;
  const std::int64_t pitch = a.num_targets * a.num_columns;
  const float* from = a.partials + blockIdx.y * a.num_columns + column;
  for (std::int64_t base = first; base < a.num_partials; base += kLoadsInFlight * step) {
    float values[kLoadsInFlight][N] = {};
#pragma unroll
    for (int u = 0; u < kLoadsInFlight; ++u) {
      const std::int64_t i = base + u * step;
      if (i < a.num_partials) device::load(from + i * pitch, values[u]);
    }
#pragma unroll
    for (int u = 0; u < kLoadsInFlight; ++u) {
#pragma unroll
      for (int k = 0; k < N; ++k) sum[k] += values[u][k];
    }
  }
}

template <int N>
__global__ void __launch_bounds__(kThreads) column_sums_kernel(const ColumnSumsArguments a) {
  constexpr int kLanes = kColumns / N;  // along the columns
  __shared__ float sums[kWarps][kColumns];
  // The next kernel may be launched now: it waits for the end of this one before it reads.
  device::trigger_programmatic_launch();
  device::grid_dependency_synchronize();
  const GradientTarget& target = a.targets[blockIdx.y];
  if (target.grad == nullptr) return;
  const std::int64_t first_column = std::int64_t{kColumns} * blockIdx.x;
  const int lane = threadIdx.x % kLanes;
  float sum[N] = {};
  sum_rows(a, first_column + lane * N, threadIdx.x / kLanes, kThreads / kLanes, sum);
#pragma unroll
  for (int k = 0; k < N; ++k) {
    for (int offset = kLanes; offset < 32; offset *= 2) {
      sum[k] += __shfl_xor_sync(~0U, sum[k], offset);
    }
    if (threadIdx.x % 32 < kLanes) sums[threadIdx.x / 32][lane * N + k] = sum[k];
  }
  __syncthreads();
  const std::int64_t column = first_column + threadIdx.x;
  if (threadIdx.x >= kColumns || column >= a.num_columns) return;
  float total = 0;
  for (int warp = 0; warp < kWarps; ++warp) total += sums[warp][threadIdx.x];
  if (target.dtype == DataType::kBFloat16) {
    write<__nv_bfloat16>(target, column, total);
  } else {
    write<float>(target, column, total);
  }
}

}  // namespace

void launch_column_sums(const ColumnSumsArguments& arguments, void* stream) {
  if (arguments.num_columns == 0) return;
  const dim3 grid(static_cast<unsigned>((arguments.num_columns + kColumns - 1) / kColumns),
                  static_cast<unsigned>(arguments.num_targets));
  const bool vectors = can_vectorize(arguments.num_columns, sizeof(float), arguments.partials);
  launch_dependent(vectors ? column_sums_kernel<4> : column_sums_kernel<1>, grid, dim3(kThreads),
                   static_cast<cudaStream_t>(stream), arguments);
}

}  // namespace packtrain
