// Each thread turns one run of a head's first half together with its partner in the second half.
//   y1 = x1 cos - x2 sin;  y2 = x2 cos + x1 sin
#include <algorithm>

#include "framework/device/cuda/check.h"
#include "models/ops/cuda/launch.h"
#include "models/ops/cuda/vector.cuh"
#include "models/ops/rotary/rotary_launch.h"

namespace packtrain {
namespace {

constexpr int kThreads = 256;

template <int N>
__device__ void turn(const RotaryArguments& a, std::int64_t table, float (&first)[N],
                     float (&second)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const float c = a.cos[table + i];
    const float s = a.direction * a.sin[table + i];
    const float x = first[i];
    first[i] = x * c - second[i] * s;
    second[i] = second[i] * c + x * s;
  }
}

template <typename T, int N>
__global__ void __launch_bounds__(kThreads) rotary_kernel(const RotaryArguments a) {
  const std::int64_t runs_a_head = a.half / N;
  const std::int64_t num_runs = a.num_rows * a.num_heads * runs_a_head;
  const std::int64_t stride = std::int64_t{kThreads} * gridDim.x;
  for (std::int64_t i = std::int64_t{kThreads} * blockIdx.x + threadIdx.x; i < num_runs;
       i += stride) {
    const std::int64_t head = i / runs_a_head;  // of all rows
    const std::int64_t row = head / a.num_heads;
    const std::int64_t element = (i - head * runs_a_head) * N;
    const std::int64_t place = head * 2 * a.half + element;
    float first[N];
    float second[N];
    device::load(static_cast<const T*>(a.qkv) + place, first);
    device::load(static_cast<const T*>(a.qkv) + place + a.half, second);
    if (head - row * a.num_heads < a.num_rotated) turn(a, row * a.half + element, first, second);
    device::store(first, static_cast<T*>(a.output) + place);
    device::store(second, static_cast<T*>(a.output) + place + a.half);
  }
}

template <typename T>
void launch(const RotaryArguments& a, cudaStream_t stream) {
  constexpr int kRun = 16 / sizeof(T);
  constexpr std::int64_t kMostBlocks = 1 << 20;
  const bool vectors = can_vectorize(a.half, sizeof(T), a.qkv, a.output);
  const std::int64_t num_runs = a.num_rows * a.num_heads * (vectors ? a.half / kRun : a.half);
  const auto blocks = static_cast<unsigned>(
      std::clamp<std::int64_t>((num_runs + kThreads - 1) / kThreads, 1, kMostBlocks));
  if (vectors) {
    rotary_kernel<T, kRun><<<blocks, kThreads, 0, stream>>>(a);
  } else {
    rotary_kernel<T, 1><<<blocks, kThreads, 0, stream>>>(a);
  }
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

}  // namespace

void launch_rotary(const RotaryArguments& arguments, void* stream) {
  if (arguments.num_rows == 0) return;
  if (arguments.bfloat16) {
    launch<__nv_bfloat16>(arguments, static_cast<cudaStream_t>(stream));
  } else {
    launch<float>(arguments, static_cast<cudaStream_t>(stream));
  }
}

}  // namespace packtrain
