// Bound by memory. A thread has one 16-byte vector of a row in all slots of that row. The slots are
// independent, so that several loads are in flight. For dot products a warp has one slot.
#include <type_traits>

#include "framework/device/cuda/check.h"
#include "models/ops/cuda/divisor.cuh"
#include "models/ops/cuda/launch.h"
#include "models/ops/cuda/vector.cuh"
#include "models/ops/experts/permute_launch.h"

namespace packtrain {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;

// The row and first column of a thread's vector.
struct RowVec {
  std::int64_t row;
  std::int64_t column;

  __device__ RowVec(std::int64_t run, int run_numel, const device::Divisor& vectors_per_row,
                    const PermuteArguments& a)
      : row(vectors_per_row.quotient(run)), column(run * run_numel - row * a.width) {}
};

__device__ std::int64_t permuted_row_of(const PermuteArguments& a, std::int64_t slot) {
  return a.permuted_rows == nullptr ? slot : a.permuted_rows[slot];
}

__device__ float weight_of(const PermuteArguments& a, std::int64_t slot) {
  return a.weights == nullptr ? 1.0F : a.weights[slot];
}

template <typename T, int N>
__global__ void __launch_bounds__(kThreads)
    unpermute_sum_kernel(const PermuteArguments a, const T* values, const T* addend, T* output,
                         const device::Divisor vectors_per_row, const std::int64_t num_vectors) {
  const std::int64_t run = std::int64_t{kThreads} * blockIdx.x + threadIdx.x;
  if (run >= num_vectors) return;
  const RowVec at(run, N, vectors_per_row, a);
  float sum[N] = {};
#pragma unroll 4
  for (int s = 0; s < a.num_slots; ++s) {
    const std::int64_t slot = at.row * a.num_slots + s;
    float value[N];
    device::load(values + permuted_row_of(a, slot) * a.width + at.column, value);
    const float weight = weight_of(a, slot);
#pragma unroll
    for (int i = 0; i < N; ++i) sum[i] += weight * value[i];
  }
  if (addend != nullptr) {
    float value[N];
    device::load(addend + run * N, value);
#pragma unroll
    for (int i = 0; i < N; ++i) sum[i] += value[i];
  }
  device::store(sum, output + run * N);
}

template <typename T, int N>
__global__ void __launch_bounds__(kThreads)
    permute_rows_kernel(const PermuteArguments a, const T* rows, T* output,
                        const device::Divisor vectors_per_row, const std::int64_t num_vectors) {
  const std::int64_t run = std::int64_t{kThreads} * blockIdx.x + threadIdx.x;
  if (run >= num_vectors) return;
  const RowVec at(run, N, vectors_per_row, a);
  float value[N];
  device::load(rows + run * N, value);
#pragma unroll 4
  for (int s = 0; s < a.num_slots; ++s) {
    const std::int64_t slot = at.row * a.num_slots + s;
    const float weight = weight_of(a, slot);
    float scaled[N];
#pragma unroll
    for (int i = 0; i < N; ++i) scaled[i] = weight * value[i];
    device::store(scaled, output + permuted_row_of(a, slot) * a.width + at.column);
  }
}

template <typename T, int N>
__global__ void __launch_bounds__(kThreads)
    grad_routing_weight_kernel(const PermuteArguments arguments, const T* a, const T* b,
                               float* output) {
  const std::int64_t slot = std::int64_t{kWarps} * blockIdx.x + threadIdx.x / 32;
  if (slot >= arguments.num_rows * arguments.num_slots) return;
  const std::int64_t offset = permuted_row_of(arguments, slot) * arguments.width;
  float sum = 0;
#pragma unroll 4
  for (std::int64_t i = threadIdx.x % 32 * N; i < arguments.width; i += 32 * N) {
    float left[N];
    float right[N];
    device::load(a + offset + i, left);
    if (b != nullptr) device::load(b + offset + i, right);
#pragma unroll
    for (int j = 0; j < N; ++j) sum += b == nullptr ? left[j] : left[j] * right[j];
  }
  for (int lane = 16; lane > 0; lane /= 2) sum += __shfl_xor_sync(~0U, sum, lane);
  if (threadIdx.x % 32 != 0) return;
  const float divisor = weight_of(arguments, slot);
  output[slot] = divisor == 0 ? 0 : sum / divisor;
}

unsigned blocks_of(std::int64_t count, int a_block) {
  return static_cast<unsigned>((count + a_block - 1) / a_block);
}

// One thread for each vector of N elements.
struct VecGrid {
  device::Divisor vectors_per_row;
  std::int64_t num_vectors;
  unsigned num_blocks;

  VecGrid(const PermuteArguments& a, int run_numel)
      : vectors_per_row(a.width / run_numel),
        num_vectors(a.num_rows * a.width / run_numel),
        num_blocks(blocks_of(num_vectors, kThreads)) {}
};

// with_vectors calls use(element, Numel<N>()) with the element type and the vector size.
template <int N>
using Numel = std::integral_constant<int, N>;

template <typename Use, typename... Pointers>
void with_vectors(const PermuteArguments& a, Use use, Pointers... pointers) {
  const bool whole_vectors =
      can_vectorize(a.width, static_cast<std::int64_t>(size_of(a.dtype)), pointers...);
  if (a.dtype == DataType::kBFloat16) {
    whole_vectors ? use(__nv_bfloat16(), Numel<8>()) : use(__nv_bfloat16(), Numel<1>());
  } else {
    whole_vectors ? use(float(), Numel<4>()) : use(float(), Numel<1>());
  }
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

}  // namespace

void launch_unpermute_sum(const PermuteArguments& a, const void* values, const void* addend,
                          void* output, void* stream) {
  if (a.num_rows == 0 || a.width == 0) return;
  const auto launch = [&](auto element, auto numel) {
    using T = decltype(element);
    constexpr int N = decltype(numel)::value;
    const VecGrid grid(a, N);
    unpermute_sum_kernel<T, N><<<grid.num_blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
        a, static_cast<const T*>(values), static_cast<const T*>(addend), static_cast<T*>(output),
        grid.vectors_per_row, grid.num_vectors);
  };
  with_vectors(a, launch, values, addend, output);
}

void launch_permute_rows(const PermuteArguments& a, const void* rows, void* output, void* stream) {
  if (a.num_rows == 0 || a.width == 0) return;
  const auto launch = [&](auto element, auto numel) {
    using T = decltype(element);
    constexpr int N = decltype(numel)::value;
    const VecGrid grid(a, N);
    permute_rows_kernel<T, N><<<grid.num_blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
        a, static_cast<const T*>(rows), static_cast<T*>(output), grid.vectors_per_row,
        grid.num_vectors);
  };
  with_vectors(a, launch, rows, output);
}

void launch_grad_routing_weight(const PermuteArguments& arguments, const void* a, const void* b,
                                float* output, void* stream) {
  const std::int64_t num_slots = arguments.num_rows * arguments.num_slots;
  if (num_slots == 0) return;
  const auto launch = [&](auto element, auto numel) {
    using T = decltype(element);
    constexpr int N = decltype(numel)::value;
    grad_routing_weight_kernel<T, N>
        <<<blocks_of(num_slots, kWarps), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
            arguments, static_cast<const T*>(a), static_cast<const T*>(b), output);
  };
  with_vectors(arguments, launch, a, b);
}

}  // namespace packtrain
