// A block sums kColumns columns: its kSlices rows of threads take every kSlices-th partial sum
// each, so that many loads are in flight, and are summed in order.
#include "models/ops/cuda/column_sums.h"

#include "framework/device/cuda/check.h"
#include "models/ops/cuda/kernel_chain.cuh"
#include "models/ops/cuda/vector.cuh"

namespace packtrain {
namespace {

constexpr int kColumns = 32;
constexpr int kSlices = 16;

template <typename T>
__device__ void write(const GradientTarget& target, std::int64_t column, float sum) {
  T* grad = static_cast<T*>(target.grad) + column;
  if (target.accumulate) sum += device::to_float(*grad);
  *grad = device::from_float<T>(sum);
}

__global__ void __launch_bounds__(kColumns* kSlices)
    column_sums_kernel(const ColumnSumsArguments a) {
  __shared__ float sums[kSlices][kColumns];
  device::wait_for_previous_kernel();
  const GradientTarget& target = a.targets[blockIdx.y];
  if (target.grad == nullptr) return;
  const std::int64_t column = std::int64_t{kColumns} * blockIdx.x + threadIdx.x;
  float sum = 0;
  if (column < a.num_columns) {
    const float* from = a.partials + blockIdx.y * a.num_columns + column;
    const std::int64_t pitch = a.num_targets * a.num_columns;
#pragma unroll 8
    for (std::int64_t i = threadIdx.y; i < a.num_partials; i += kSlices) sum += from[i * pitch];
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= a.num_columns) return;
  for (int i = 1; i < kSlices; ++i) sum += sums[i][threadIdx.x];
  if (target.bfloat16) {
    write<__nv_bfloat16>(target, column, sum);
  } else {
    write<float>(target, column, sum);
  }
}

}  // namespace

void launch_column_sums(const ColumnSumsArguments& arguments, void* stream) {
  if (arguments.num_columns == 0) return;
  const dim3 grid(static_cast<unsigned>((arguments.num_columns + kColumns - 1) / kColumns),
                  static_cast<unsigned>(arguments.num_targets));
  launch_chained(column_sums_kernel, grid, dim3(kColumns, kSlices),
                 static_cast<cudaStream_t>(stream), arguments);
}

}  // namespace packtrain
