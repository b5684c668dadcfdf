#include <algorithm>

#include "framework/device/cuda/check.h"
#include "models/ops/cuda/launch.h"
#include "models/ops/linear/bias_gradient_launch.h"
#include "models/ops/linear/column_partials.cuh"

namespace packtrain {
namespace {

constexpr int kMaxRun = 8;                  // elements of one load
constexpr std::int64_t kNumBlocks = 1024;   // several times the multiprocessors of any GPU
constexpr std::int64_t kMinSplitRows = 64;  // rows of a block

template <typename T, int N>
struct Rows {
  struct Loaded {
    float values[N];
  };
  const T* values;
  std::int64_t num_columns;

  __device__ void load(std::int64_t row, Loaded& to) const {
    device::load(values + row * num_columns, to.values);
  }
  __device__ void add(std::int64_t /*row*/, const Loaded& loaded, float (&sum)[N]) const {
#pragma unroll
    for (int i = 0; i < N; ++i) sum[i] += loaded.values[i];
  }
};

template <typename T, int N>
__global__ void __launch_bounds__(32 * device::kPartialWarps)
    partial_sums_kernel(const ColumnPartials partials, const T* values) {
  const Rows<T, N> rows{values + device::first_column<N>(), partials.num_columns};
  device::sum_columns<N>(partials, rows);
}

template <typename T, int N>
void launch_partial_sums(const BiasGradientArguments& a, cudaStream_t stream) {
  const ColumnPartials partials{a.partial_sums, a.num_rows, a.num_columns, a.num_splits};
  partial_sums_kernel<T, N>
      <<<column_partials_grid<N>(partials), 32 * device::kPartialWarps, 0, stream>>>(
          partials, static_cast<const T*>(a.grad_output));
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
