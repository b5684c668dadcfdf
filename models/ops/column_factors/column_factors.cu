// Bound by memory. A thread has the same columns of many rows, so that it finds their factor once.
#include <algorithm>

#include "framework/device/cuda/check.h"
#include "models/ops/column_factors/column_factors_launch.h"
#include "models/ops/cuda/alignment.h"
#include "models/ops/cuda/vector.cuh"

namespace packtrain {
namespace {

constexpr int kThreads = 128;
constexpr std::int64_t kRowBlocks = 2048;  // fill the multiprocessors even with few columns

__device__ float factor_of(const ColumnFactorsArguments& a, std::int64_t column) {
  int i = 0;
  while (i + 1 < a.num_factors && column >= a.ends[i]) ++i;
  return a.factors[i];
}

template <int N, typename T>
__global__ void __launch_bounds__(kThreads)
    column_factors_kernel(const __grid_constant__ ColumnFactorsArguments a) {
  const std::int64_t column = (std::int64_t{blockIdx.x} * kThreads + threadIdx.x) * N;
  if (column >= a.num_columns) return;
  const float factor = factor_of(a, column);
  if (factor == 1) return;
  T* const at = static_cast<T*>(a.rows) + column;
  for (std::int64_t row = blockIdx.y; row < a.num_rows; row += gridDim.y) {
    float values[N];
    device::load<N>(at + row * a.stride, values);
#pragma unroll
    for (int n = 0; n < N; ++n) values[n] *= factor;
    device::store(values, at + row * a.stride);
  }
}

template <int N, typename T>
void launch_vectors(const ColumnFactorsArguments& a, cudaStream_t stream) {
  constexpr std::int64_t kColumns = std::int64_t{kThreads} * N;
  const dim3 blocks(static_cast<unsigned>((a.num_columns + kColumns - 1) / kColumns),
                    static_cast<unsigned>(std::min(a.num_rows, kRowBlocks)));
  column_factors_kernel<N, T><<<blocks, kThreads, 0, stream>>>(a);
}

template <typename T>
void launch_type(const ColumnFactorsArguments& a, cudaStream_t stream) {
  constexpr int kRun = 16 / sizeof(T);
  const bool vectors =
      are_aligned(16, a.rows) && a.stride % kRun == 0 &&
      std::all_of(a.ends, a.ends + a.num_factors, [](auto end) { return end % kRun == 0; });
  vectors ? launch_vectors<kRun, T>(a, stream) : launch_vectors<1, T>(a, stream);
}

}  // namespace

void launch_column_factors(const ColumnFactorsArguments& arguments, void* stream) {
  if (arguments.num_rows == 0 || arguments.num_columns == 0) return;
  const auto on = static_cast<cudaStream_t>(stream);
  arguments.dtype == DataType::kBFloat16 ? launch_type<__nv_bfloat16>(arguments, on)
                                         : launch_type<float>(arguments, on);
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

}  // namespace packtrain
