// One pass over the shard, four elements a thread: bound by memory (30 bytes an element with a
// bfloat16 weight), so plain 16-byte accesses are all it needs.
#include <cuda_bf16.h>

#include <algorithm>
#include <cstdint>

#include "framework/device/cuda/check.h"
#include "models/ops/adamw/adamw_cuda.h"

namespace packtrain {
namespace {

constexpr int kThreads = 256;
constexpr int kBlocksPerMultiprocessor = 8;
constexpr int kVector = 4;

__device__ void update(const AdamWArguments& a, float clip_factor, float gradient, float& w,
                       float& m, float& v) {
  const float g = clip_factor * gradient;
  m = a.beta1 * m + a.one_minus_beta1 * g;
  v = a.beta2 * v + a.one_minus_beta2 * g * g;
  w = w * a.decay - a.step_size * m / (sqrtf(v) * a.inverse_root_bias2 + a.epsilon);
}

__device__ void store(float* weight, float4 w) {
  *reinterpret_cast<float4*>(weight) = w;
}

__device__ void store(__nv_bfloat16* weight, float4 w) {
  const __nv_bfloat162 low = __floats2bfloat162_rn(w.x, w.y);
  const __nv_bfloat162 high = __floats2bfloat162_rn(w.z, w.w);
  uint2 bits;
  bits.x = *reinterpret_cast<const unsigned*>(&low);
  bits.y = *reinterpret_cast<const unsigned*>(&high);
  *reinterpret_cast<uint2*>(weight) = bits;
}

__device__ void store(float* weight, float w) {
  *weight = w;
}
__device__ void store(__nv_bfloat16* weight, float w) {
  *weight = __float2bfloat16_rn(w);
}

template <typename Weight>
__device__ void update_vector(const AdamWArguments& a, float clip_factor, Weight* weight,
                              std::int64_t i) {
  const float4 g = *reinterpret_cast<const float4*>(a.grad + i);
  float4 w = *reinterpret_cast<const float4*>(a.master + i);
  float4 m = *reinterpret_cast<const float4*>(a.exp_avg + i);
  float4 v = *reinterpret_cast<const float4*>(a.exp_avg_sq + i);
  update(a, clip_factor, g.x, w.x, m.x, v.x);
  update(a, clip_factor, g.y, w.y, m.y, v.y);
  update(a, clip_factor, g.z, w.z, m.z, v.z);
  update(a, clip_factor, g.w, w.w, m.w, v.w);
  store(a.master + i, w);
  store(a.exp_avg + i, m);
  store(a.exp_avg_sq + i, v);
  if (weight != nullptr) store(weight + i, w);
}

template <typename Weight>
__global__ void __launch_bounds__(kThreads)
    adamw_kernel(const __grid_constant__ AdamWArguments a, std::int64_t num_vectors) {
  if (*a.skip != 0) return;
  const float clip_factor = *a.clip_factor;
  auto* weight = static_cast<Weight*>(a.weight);
  const std::int64_t stride = std::int64_t{kThreads} * gridDim.x;
  const std::int64_t thread = std::int64_t{kThreads} * blockIdx.x + threadIdx.x;
  for (std::int64_t i = thread; i < num_vectors; i += stride) {
    update_vector(a, clip_factor, weight, i * kVector);
  }
  for (std::int64_t i = num_vectors * kVector + thread; i < a.numel; i += stride) {
    float w = a.master[i];
    update(a, clip_factor, a.grad[i], w, a.exp_avg[i], a.exp_avg_sq[i]);
    a.master[i] = w;
    if (weight != nullptr) store(weight + i, w);
  }
}

bool aligned(const void* pointer, std::uintptr_t bytes) {
  return reinterpret_cast<std::uintptr_t>(pointer) % bytes == 0;
}

bool vectors_are_aligned(const AdamWArguments& a) {
  return aligned(a.master, 16) && aligned(a.grad, 16) && aligned(a.exp_avg, 16) &&
         aligned(a.exp_avg_sq, 16) && aligned(a.weight, a.weight_is_bfloat16 ? 8 : 16);
}

}  // namespace

void launch_adamw(const AdamWArguments& arguments, void* stream) {
  if (arguments.numel == 0) return;
  int device = 0;
  int multiprocessors = 0;
  PACKTRAIN_CUDA_CHECK(cudaGetDevice(&device));
  PACKTRAIN_CUDA_CHECK(
      cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device));
  const std::int64_t num_vectors = vectors_are_aligned(arguments) ? arguments.numel / kVector : 0;
  const std::int64_t num_items = num_vectors > 0 ? num_vectors : arguments.numel;
  const auto blocks = static_cast<unsigned>(
      std::min<std::int64_t>((num_items + kThreads - 1) / kThreads,
                             std::int64_t{multiprocessors} * kBlocksPerMultiprocessor));
  const auto cuda_stream = static_cast<cudaStream_t>(stream);
  if (arguments.weight_is_bfloat16) {
    adamw_kernel<__nv_bfloat16><<<blocks, kThreads, 0, cuda_stream>>>(arguments, num_vectors);
  } else {
    adamw_kernel<float><<<blocks, kThreads, 0, cuda_stream>>>(arguments, num_vectors);
  }
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

}  // namespace packtrain
