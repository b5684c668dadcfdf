// Bound by memory. A thread has one 16-byte vector of an output row. All threads of a row read the
// same index, which the cache serves.
#include <type_traits>

#include "framework/device/cuda/check.h"
#include "models/ops/attention/expanded_keys_launch.h"
#include "models/ops/cuda/divisor.cuh"
#include "models/ops/cuda/launch.h"
#include "models/ops/cuda/vector.cuh"

namespace packtrain {
namespace {

constexpr int kExpandThreads = 256;

// The row and first column of a thread's vector.
struct RowColumn {
  std::int64_t row;
  std::int64_t column;

  __device__ RowColumn(std::int64_t vector, int numel, const device::Divisor& vectors_per_row,
                       std::int64_t width)
      : row(vectors_per_row.quotient(vector)), column(vector * numel - row * width) {}
};

template <typename T, int N>
__global__ void __launch_bounds__(kExpandThreads)
    expand_rows_kernel(const ExpandArguments a, const T* input, T* output,
                       const device::Divisor vectors_per_row, const std::int64_t num_vectors) {
  const std::int64_t vector = std::int64_t{kExpandThreads} * blockIdx.x + threadIdx.x;
  if (vector >= num_vectors) return;
  const RowColumn at(vector, N, vectors_per_row, a.width);
  const std::int64_t row = a.rows[at.row];
  device::store_vec(device::load_vec<N>(input + row * a.row_stride + at.column),
                    output + vector * N);
}

// A row with one copy, as most are, is copied: its sum is the value itself.
template <typename T, int N>
__global__ void __launch_bounds__(kExpandThreads)
    sum_copies_kernel(const SumCopiesArguments a, const T* input, T* output,
                      const device::Divisor vectors_per_row, const std::int64_t num_vectors) {
  const std::int64_t vector = std::int64_t{kExpandThreads} * blockIdx.x + threadIdx.x;
  if (vector >= num_vectors) return;
  const RowColumn at(vector, N, vectors_per_row, a.width);
  const std::int32_t end = a.first_copy[at.row + 1];
  float sum[N] = {};
#pragma unroll 4
  for (std::int32_t i = a.first_copy[at.row]; i < end; ++i) {
    float value[N];
    device::load(input + a.copies[i] * a.width + at.column, value);
#pragma unroll
    for (int n = 0; n < N; ++n) sum[n] += value[n];
  }
  device::store(sum, output + at.row * a.row_stride + at.column);
}

// launch(element, numel): the element type, and the size of vectors that all rows can be read in.
template <typename Launch>
void with_row_vectors(DataType dtype, bool whole_vectors, const Launch& launch) {
  const auto with = [&](auto element, auto wide) {
    using One = std::integral_constant<int, 1>;
    whole_vectors ? launch(element, wide) : launch(element, One());
  };
  if (dtype == DataType::kBFloat16) {
    with(__nv_bfloat16(), std::integral_constant<int, 8>());
  } else {
    with(float(), std::integral_constant<int, 4>());
  }
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

template <typename Arguments>
bool has_whole_vectors(const Arguments& a, const void* input, const void* output) {
  const auto element_bytes = static_cast<std::int64_t>(size_of(a.dtype));
  return can_vectorize(a.width, element_bytes, input, output) &&
         can_vectorize(a.row_stride, element_bytes);
}

unsigned blocks_for(std::int64_t num_vectors) {
  return static_cast<unsigned>((num_vectors + kExpandThreads - 1) / kExpandThreads);
}

}  // namespace

void launch_expand_rows(const ExpandArguments& a, const void* input, void* output, void* stream) {
  if (a.num_keys == 0 || a.width == 0) return;
  const auto launch = [&](auto element, auto numel) {
    using T = decltype(element);
    constexpr int N = decltype(numel)::value;
    const std::int64_t num_vectors = a.num_keys * a.width / N;
    expand_rows_kernel<T, N>
        <<<blocks_for(num_vectors), kExpandThreads, 0, static_cast<cudaStream_t>(stream)>>>(
            a, static_cast<const T*>(input), static_cast<T*>(output), device::Divisor(a.width / N),
            num_vectors);
  };
  with_row_vectors(a.dtype, has_whole_vectors(a, input, output), launch);
}

void launch_sum_copies(const SumCopiesArguments& a, const void* input, void* output, void* stream) {
  if (a.num_rows == 0 || a.width == 0) return;
  const auto launch = [&](auto element, auto numel) {
    using T = decltype(element);
    constexpr int N = decltype(numel)::value;
    const std::int64_t num_vectors = a.num_rows * a.width / N;
    sum_copies_kernel<T, N>
        <<<blocks_for(num_vectors), kExpandThreads, 0, static_cast<cudaStream_t>(stream)>>>(
            a, static_cast<const T*>(input), static_cast<T*>(output), device::Divisor(a.width / N),
            num_vectors);
  };
  with_row_vectors(a.dtype, has_whole_vectors(a, input, output), launch);
}

}  // namespace packtrain
