// Bound by memory. A warp has a row. It reads the row once for sums, and again from the cache for
// the result. Sums are of one warp in a fixed order.
#include "framework/device/cuda/check.h"
#include "models/ops/altup/magnitude_launch.h"
#include "models/ops/cuda/alignment.h"
#include "models/ops/cuda/vector.cuh"
#include "models/ops/cuda/warp_sum.cuh"

namespace packtrain {
namespace {

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / 32;

// Means over a row.
struct Means {
  float p;       // of p^2
  float target;  // of x^2
  float along;   // of g p; forward: 0
};

template <typename T, int N>
__device__ Means means_of(const T* p, const T* target, const T* grad, int hidden, int lane) {
  Means sums = {};
  for (int column = lane * N; column < hidden; column += 32 * N) {
    float of_p[N];
    float of_target[N];
    float of_grad[N] = {};
    device::load<N>(p + column, of_p);
    device::load<N>(target + column, of_target);
    if (grad != nullptr) device::load<N>(grad + column, of_grad);
#pragma unroll
    for (int n = 0; n < N; ++n) {
      sums.p += of_p[n] * of_p[n];
      sums.target += of_target[n] * of_target[n];
      sums.along += of_grad[n] * of_p[n];
    }
  }
  const auto width = static_cast<float>(hidden);
  return {device::warp_sum(sums.p) / width, device::warp_sum(sums.target) / width,
          device::warp_sum(sums.along) / width};
}

template <typename T, int N>
__global__ void __launch_bounds__(kThreads) forward_kernel(const MagnitudeArguments a) {
  const std::int64_t row = std::int64_t{blockIdx.x} * kWarps + threadIdx.x / 32;
  const int lane = static_cast<int>(threadIdx.x % 32);
  if (row >= a.num_rows) return;
  const std::int64_t offset = row * a.hidden;
  const T* p = static_cast<const T*>(a.p) + offset;
  const T* target = static_cast<const T*>(a.target) + offset;
  const Means means = means_of<T, N>(p, target, nullptr, a.hidden, lane);
  const float ratio = sqrtf(means.target) / sqrtf(fmaxf(means.p, kLeastSquareMagnitude));
  T* y = static_cast<T*>(a.output) + offset;
  for (int column = lane * N; column < a.hidden; column += 32 * N) {
    float values[N];
    device::load<N>(p + column, values);
#pragma unroll
    for (int n = 0; n < N; ++n) values[n] *= ratio;
    device::store(values, y + column);
  }
}

// dp = g ratio - p inward, dx = x outward.
struct Slopes {
  float ratio;
  float inward;
  float outward;
};

__device__ Slopes slopes_of(const Means& means) {
  const float target = sqrtf(means.target);
  const float own = sqrtf(fmaxf(means.p, kLeastSquareMagnitude));
  const float ratio = target / own;
  return {ratio, means.p > kLeastSquareMagnitude ? means.along * ratio / own / own : 0.0F,
          target > 0 ? means.along / own / target : 0.0F};
}

template <typename T, int N>
__global__ void __launch_bounds__(kThreads) backward_kernel(const MagnitudeArguments a) {
  const std::int64_t row = std::int64_t{blockIdx.x} * kWarps + threadIdx.x / 32;
  const int lane = static_cast<int>(threadIdx.x % 32);
  if (row >= a.num_rows) return;
  const std::int64_t offset = row * a.hidden;
  const T* p = static_cast<const T*>(a.p) + offset;
  const T* target = static_cast<const T*>(a.target) + offset;
  const T* grad = static_cast<const T*>(a.grad) + row * a.grad_stride;
  const Slopes slopes = slopes_of(means_of<T, N>(p, target, grad, a.hidden, lane));
  T* dp = static_cast<T*>(a.output) + offset;
  float* dx = a.grad_target + offset;
  for (int column = lane * N; column < a.hidden; column += 32 * N) {
    float of_p[N];
    float of_target[N];
    float of_grad[N];
    device::load<N>(p + column, of_p);
    device::load<N>(target + column, of_target);
    device::load<N>(grad + column, of_grad);
#pragma unroll
    for (int n = 0; n < N; ++n) {
      of_grad[n] = of_grad[n] * slopes.ratio - of_p[n] * slopes.inward;
      of_target[n] *= slopes.outward;
    }
    device::store(of_grad, dp + column);
    device::store(of_target, dx + column);
  }
}

template <typename T, int N>
void launch_vectors(const MagnitudeArguments& a, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>((a.num_rows + kWarps - 1) / kWarps);
  if (a.grad == nullptr) {
    forward_kernel<T, N><<<blocks, kThreads, 0, stream>>>(a);
  } else {
    backward_kernel<T, N><<<blocks, kThreads, 0, stream>>>(a);
  }
}

// Vectors of four, so that one of float32 has 16 bytes at most.
template <typename T>
void launch_type(const MagnitudeArguments& a, cudaStream_t stream) {
  constexpr int kRun = 4;
  const bool vectors = a.hidden % kRun == 0 && a.grad_stride % kRun == 0 &&
                       are_aligned(kRun * sizeof(T), a.p, a.target, a.grad, a.output) &&
                       are_aligned(kRun * sizeof(float), a.grad_target);
  vectors ? launch_vectors<T, kRun>(a, stream) : launch_vectors<T, 1>(a, stream);
}

}  // namespace

void launch_match_magnitude(const MagnitudeArguments& arguments, void* stream) {
  if (arguments.num_rows == 0) return;
  const auto on = static_cast<cudaStream_t>(stream);
  arguments.dtype == DataType::kBFloat16 ? launch_type<__nv_bfloat16>(arguments, on)
                                         : launch_type<float>(arguments, on);
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

}  // namespace packtrain
