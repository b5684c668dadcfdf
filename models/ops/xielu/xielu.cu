// Elementwise and bound by memory. A thread has every n-th vector, so that the sums of a block are
// of a fixed set of elements.
#include <algorithm>

#include "framework/device/cuda/check.h"
#include "models/ops/cuda/launch.h"
#include "models/ops/cuda/vector.cuh"
#include "models/ops/xielu/xielu_launch.h"

namespace packtrain {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kMostBlocks = 2048;
constexpr std::int64_t kElementsOfThread = 16;

struct Numbers {
  float p;
  float n;
  float b;
  float e;
};

struct Curve {
  float value;
  float slope;
  float below;  // exp(min(x, e)) - 1 - x
};

// exp(x) - 1 - x by its series. The difference would cancel near 0.
__device__ float near_zero(float x) {
  const float sum =
      ((((x / 720.0F + 1.0F / 120.0F) * x + 1.0F / 24.0F) * x + 1.0F / 6.0F) * x + 0.5F);
  return sum * x * x;
}

__device__ Curve curve_of(float x, const Numbers& c) {
  if (x > 0) return {x * (c.p * x + c.b), 2 * c.p * x + c.b, 0};
  const float exponential = expm1f(fminf(x, c.e));
  const bool is_near = x > kXieluNear && x < c.e;
  const float below = is_near ? near_zero(x) : exponential - x;
  const float slope = x < c.e ? exponential : -1.0F;
  return {c.n * below + c.b * x, c.n * slope + c.b, below};
}

struct Sums {
  float p = 0;
  float n = 0;
};

template <typename T, int N>
__device__ void backward(const XieluArguments& a, std::int64_t at, const Numbers& c, Sums& sums) {
  float x[N];
  float g[N];
  device::load<N>(static_cast<const T*>(a.x) + at, x);
  device::load<N>(static_cast<const T*>(a.grad_output) + at, g);
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const Curve f = curve_of(x[i], c);
    const float positive = fmaxf(x[i], 0);
    sums.p += g[i] * positive * positive;
    sums.n += g[i] * f.below;
    x[i] = g[i] * f.slope;
    g[i] = f.value;
  }
  device::store(x, static_cast<T*>(a.output) + at);
  if (a.recomputed_output != nullptr) {
    device::store(g, static_cast<T*>(a.recomputed_output) + at);
  }
}

template <typename T, int N>
__device__ void forward(const XieluArguments& a, std::int64_t at, const Numbers& c) {
  float x[N];
  device::load<N>(static_cast<const T*>(a.x) + at, x);
#pragma unroll
  for (int i = 0; i < N; ++i) x[i] = curve_of(x[i], c).value;
  device::store(x, static_cast<T*>(a.output) + at);
}

template <typename T, int N>
__global__ void __launch_bounds__(kThreads) xielu_kernel(const XieluArguments a) {
  __shared__ float scratch[32];
  const Numbers c = {a.numbers[0], a.numbers[1], a.numbers[2], a.numbers[3]};
  const std::int64_t num_vectors = a.numel / N;
  const std::int64_t step = std::int64_t{kThreads} * gridDim.x;
  Sums sums;
  for (std::int64_t v = std::int64_t{kThreads} * blockIdx.x + threadIdx.x; v < num_vectors;
       v += step) {
    if (a.grad_output == nullptr) {
      forward<T, N>(a, v * N, c);
    } else {
      backward<T, N>(a, v * N, c, sums);
    }
  }
  if (a.grad_output == nullptr) return;
  const float of_p = device::block_sum(sums.p, scratch);
  const float of_n = device::block_sum(sums.n, scratch);
  if (threadIdx.x != 0) return;
  a.sums[2 * blockIdx.x] = of_p;
  a.sums[2 * blockIdx.x + 1] = of_n;
}

template <typename T>
void launch_type(const XieluArguments& a, cudaStream_t stream) {
  constexpr int kWhole = 16 / sizeof(T);
  const auto blocks = static_cast<unsigned>(a.num_blocks);
  if (can_vectorize(a.numel, sizeof(T), a.x, a.grad_output, a.output, a.recomputed_output)) {
    xielu_kernel<T, kWhole><<<blocks, kThreads, 0, stream>>>(a);
  } else {
    xielu_kernel<T, 1><<<blocks, kThreads, 0, stream>>>(a);
  }
}

}  // namespace

std::int64_t xielu_num_blocks(std::int64_t numel) {
  constexpr std::int64_t kOfBlock = kThreads * kElementsOfThread;
  return std::clamp<std::int64_t>((numel + kOfBlock - 1) / kOfBlock, 1, kMostBlocks);
}

void launch_xielu(const XieluArguments& arguments, void* stream) {
  const auto on = static_cast<cudaStream_t>(stream);
  arguments.dtype == DataType::kBFloat16 ? launch_type<__nv_bfloat16>(arguments, on)
                                         : launch_type<float>(arguments, on);
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

}  // namespace packtrain
