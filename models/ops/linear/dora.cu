// Bound by memory. A thread has the same columns in all rows, so that it reads their factors once.
#include "framework/device/cuda/check.h"
#include "models/ops/cuda/column_sums.h"
#include "models/ops/cuda/launch.h"
#include "models/ops/linear/column_partials.cuh"
#include "models/ops/linear/dora_launch.h"

namespace packtrain {
namespace {

constexpr int kThreads = 32 * device::kPartialWarps;
constexpr std::int64_t kRowsOfBlock = 32;

// Each block has some rows of 32 N columns, each of its warps every eighth of them.
template <typename T, int N>
__global__ void __launch_bounds__(kThreads) scale_kernel(const DoraScaleArguments a) {
  const std::int64_t column = device::first_column<N>();
  if (column >= a.num_columns) return;
  float factors[N];
  float bias[N] = {};
#pragma unroll
  for (int i = 0; i < N; ++i) factors[i] = a.factors[column + i];
  if (a.bias != nullptr) device::load(static_cast<const T*>(a.bias) + column, bias);
  const std::int64_t first = kRowsOfBlock * blockIdx.y + threadIdx.x / 32;
#pragma unroll
  for (int r = 0; r < kRowsOfBlock; r += device::kPartialWarps) {
    const std::int64_t row = first + r;
    if (row >= a.num_rows) return;
    const std::int64_t at = row * a.num_columns + column;
    float y[N];
    float added[N] = {};
    device::load(static_cast<const T*>(a.z) + at, y);
    if (a.residual != nullptr) device::load(static_cast<const T*>(a.residual) + at, added);
#pragma unroll
    for (int i = 0; i < N; ++i) y[i] = y[i] * factors[i] + (bias[i] + added[i]);
    device::store(y, static_cast<T*>(a.y) + at);
  }
}

// Sums dy z, and writes dz = g dy over z.
template <typename T, int N>
struct ScaledRows {
  struct Loaded {
    device::Vec<T, N> grad;
    device::Vec<T, N> z;
  };
  const T* grad;
  T* z;
  std::int64_t num_columns;
  float factors[N];

  __device__ void load(std::int64_t row, Loaded& to) const {
    to.grad = device::load_vec<N>(grad + row * num_columns);
    to.z = device::load_vec<N>(z + row * num_columns);
  }
  __device__ void add(std::int64_t row, const Loaded& loaded, float (&sum)[N]) const {
    float g[N];
    float values[N];
    device::unpack(loaded.grad, g);
    device::unpack(loaded.z, values);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      sum[i] += g[i] * values[i];
      values[i] = g[i] * factors[i];
    }
    device::store(values, z + row * num_columns);
  }
};

template <typename T, int N>
__global__ void __launch_bounds__(kThreads)
    scale_backward_kernel(const ColumnPartials partials, const DoraScaleBackwardArguments a) {
  const std::int64_t column = device::first_column<N>();
  ScaledRows<T, N> rows{static_cast<const T*>(a.grad_output) + column,
                        static_cast<T*>(a.z) + column,
                        a.num_columns,
                        {}};
  if (column < a.num_columns) {
#pragma unroll
    for (int i = 0; i < N; ++i) rows.factors[i] = a.factors[column + i];
  }
  device::sum_columns<N>(partials, rows);
}

template <typename T, int N>
void launch_scale(const DoraScaleArguments& a, cudaStream_t stream) {
  const ColumnPartials grid{nullptr, a.num_rows, a.num_columns,
                            (a.num_rows + kRowsOfBlock - 1) / kRowsOfBlock};
  scale_kernel<T, N><<<column_partials_grid<N>(grid), kThreads, 0, stream>>>(a);
}

template <typename T>
void launch_scale(const DoraScaleArguments& a, cudaStream_t stream) {
  if (can_vectorize(a.num_columns, sizeof(T), a.z, a.bias, a.residual, a.y)) {
    launch_scale<T, 16 / sizeof(T)>(a, stream);
  } else {
    launch_scale<T, 1>(a, stream);
  }
}

template <typename T, int N>
void launch_backward(const DoraScaleBackwardArguments& a, cudaStream_t stream) {
  const ColumnPartials partials{a.partial_sums, a.num_rows, a.num_columns, a.num_splits};
  scale_backward_kernel<T, N>
      <<<column_partials_grid<N>(partials), kThreads, 0, stream>>>(partials, a);
}

template <typename T>
void launch_backward(const DoraScaleBackwardArguments& a, cudaStream_t stream) {
  if (can_vectorize(a.num_columns, sizeof(T), a.grad_output, a.z)) {
    launch_backward<T, 16 / sizeof(T)>(a, stream);
  } else {
    launch_backward<T, 1>(a, stream);
  }
}

}  // namespace

void launch_dora_scale(const DoraScaleArguments& arguments, void* stream) {
  const auto on = static_cast<cudaStream_t>(stream);
  if (arguments.dtype == DataType::kBFloat16) {
    launch_scale<__nv_bfloat16>(arguments, on);
  } else {
    launch_scale<float>(arguments, on);
  }
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

void launch_dora_scale_backward(const DoraScaleBackwardArguments& arguments, void* stream) {
  const auto on = static_cast<cudaStream_t>(stream);
  if (arguments.dtype == DataType::kBFloat16) {
    launch_backward<__nv_bfloat16>(arguments, on);
  } else {
    launch_backward<float>(arguments, on);
  }
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
  ColumnSumsArguments sums;
  sums.partials = arguments.partial_sums;
  sums.num_partials = arguments.num_splits;
  sums.num_columns = arguments.num_columns;
  sums.targets[0].grad = arguments.sums;
  launch_column_sums(sums, stream);
}

}  // namespace packtrain
