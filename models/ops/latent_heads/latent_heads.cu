// Copies of elements, bound by memory. A thread has one vector of the merged heads. In backward a
// second kernel adds the gradients of the elements that heads share. There a thread has one vector
// of a row, and reads it from one head after another.
#include "framework/device/cuda/check.h"
#include "models/ops/cuda/divisor.cuh"
#include "models/ops/cuda/launch.h"
#include "models/ops/cuda/vector.cuh"
#include "models/ops/latent_heads/latent_heads_launch.h"

namespace packtrain {
namespace {

constexpr int kThreads = 256;

// The place of an element of the merged heads in its part; null: it is 0, or shared by heads in
// backward.
template <typename T>
__device__ T* place_in_part(const LatentHeadsArguments& a, std::int64_t row, int head, int column) {
  const int heads = a.num_heads;
  const int turned = a.rotary_dim;
  const int of_key_value = a.unturned_dim + a.value_dim;
  if (head < heads) {
    T* query = static_cast<T*>(a.query) + (row * heads + head) * (a.unturned_dim + turned);
    return query + (column < turned ? a.unturned_dim + column : column - turned);
  }
  if (head < 2 * heads) {
    if (column < turned) {
      return a.backward ? nullptr : static_cast<T*>(a.key_rope) + row * turned + column;
    }
    return static_cast<T*>(a.key_value) + (row * heads + head - heads) * of_key_value + column -
           turned;
  }
  if (column >= a.value_dim) return nullptr;
  return static_cast<T*>(a.key_value) + (row * heads + head - 2 * heads) * of_key_value +
         a.unturned_dim + column;
}

template <typename T, int N>
__global__ void __launch_bounds__(kThreads)
    latent_heads_kernel(const LatentHeadsArguments a, const device::Divisor vectors_per_head,
                        const device::Divisor heads_per_row, const std::int64_t num_vectors) {
  const std::int64_t vector = std::int64_t{kThreads} * blockIdx.x + threadIdx.x;
  if (vector >= num_vectors) return;
  const int head_dim = a.rotary_dim + a.unturned_dim;
  const std::int64_t head = vectors_per_head.quotient(vector);
  const int column = static_cast<int>(vector * N - head * head_dim);
  const std::int64_t row = heads_per_row.quotient(head);
  T* merged = static_cast<T*>(a.merged) + vector * N;
  T* part = place_in_part<T>(a, row, static_cast<int>(head - row * 3 * a.num_heads), column);
  if (a.backward) {
    if (part != nullptr) device::store_vec(device::load_vec<N>(merged), part);
    return;
  }
  device::Vec<T, N> values = {};
  if (part != nullptr) values = device::load_vec<N>(part);
  device::store_vec(values, merged);
}

template <typename T, int N>
__global__ void __launch_bounds__(kThreads)
    latent_shared_kernel(const LatentHeadsArguments a, const device::Divisor vectors_per_row,
                         const std::int64_t num_vectors) {
  const std::int64_t vector = std::int64_t{kThreads} * blockIdx.x + threadIdx.x;
  if (vector >= num_vectors) return;
  const std::int64_t row = vectors_per_row.quotient(vector);
  const std::int64_t column = vector * N - row * a.rotary_dim;
  const std::int64_t head_dim = a.rotary_dim + a.unturned_dim;
  const T* keys =
      static_cast<const T*>(a.merged) + (row * 3 * a.num_heads + a.num_heads) * head_dim + column;
  float sum[N] = {};
  for (int head = 0; head < a.num_heads; ++head) {
    float values[N];
    device::load<N>(keys + head * head_dim, values);
#pragma unroll
    for (int n = 0; n < N; ++n) sum[n] += values[n];
  }
  device::store(sum, static_cast<T*>(a.key_rope) + vector * N);
}

unsigned blocks_of(std::int64_t num_vectors) {
  return static_cast<unsigned>((num_vectors + kThreads - 1) / kThreads);
}

template <typename T, int N>
void launch_latent_vectors(const LatentHeadsArguments& a, cudaStream_t stream) {
  const std::int64_t per_head = (a.rotary_dim + a.unturned_dim) / N;
  const std::int64_t heads_per_row = std::int64_t{3} * a.num_heads;
  const std::int64_t num_vectors = a.num_rows * heads_per_row * per_head;
  latent_heads_kernel<T, N><<<blocks_of(num_vectors), kThreads, 0, stream>>>(
      a, device::Divisor(per_head), device::Divisor(heads_per_row), num_vectors);
  if (!a.backward) return;
  const std::int64_t per_row = a.rotary_dim / N;
  const std::int64_t num_shared = a.num_rows * per_row;
  latent_shared_kernel<T, N>
      <<<blocks_of(num_shared), kThreads, 0, stream>>>(a, device::Divisor(per_row), num_shared);
}

template <typename T>
void launch_latent_type(const LatentHeadsArguments& a, cudaStream_t stream) {
  constexpr std::size_t kSize = sizeof(T);
  const bool vectors =
      can_vectorize(a.rotary_dim, kSize, a.query, a.key_value, a.key_rope, a.merged) &&
      can_vectorize(a.unturned_dim, kSize) && can_vectorize(a.value_dim, kSize);
  if (vectors) return launch_latent_vectors<T, 16 / kSize>(a, stream);
  launch_latent_vectors<T, 1>(a, stream);
}

}  // namespace

void launch_latent_heads(const LatentHeadsArguments& arguments, void* stream) {
  if (arguments.num_rows == 0) return;
  const auto on = static_cast<cudaStream_t>(stream);
  arguments.dtype == DataType::kBFloat16 ? launch_latent_type<__nv_bfloat16>(arguments, on)
                                         : launch_latent_type<float>(arguments, on);
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

}  // namespace packtrain
