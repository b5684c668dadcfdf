// squared_norm_kernel is bound by memory. The others are one small block each, which replaces a
// dozen launches.
#include "framework/device/cuda/check.h"
#include "models/ops/cuda/launch.h"
#include "models/ops/cuda/vector.cuh"
#include "models/ops/gradient_norm/gradient_norm_launch.h"

namespace packtrain {
namespace {

constexpr int kThreads = 256;
constexpr int kUnroll = 4;  // vectors in flight in a thread

// Block b sums tiles b, b + grid, and so on, of kUnroll x kThreads x N elements. The order depends
// only on the sizes, so the sum is deterministic.
template <typename T, int N>
__global__ void __launch_bounds__(kThreads) squared_norm_kernel(const SquaredNormArguments a) {
  constexpr std::int64_t kRow = std::int64_t{kThreads} * N;
  constexpr std::int64_t kTile = kRow * kUnroll;
  __shared__ float scratch[32];
  const T* values = static_cast<const T*>(a.values);
  const std::int64_t num_tiles = a.numel / kTile;
  float sums[N] = {};
  for (std::int64_t tile = blockIdx.x; tile < num_tiles; tile += gridDim.x) {
    float x[kUnroll][N];
    const T* from = values + tile * kTile + threadIdx.x * N;
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) device::load(from + u * kRow, x[u]);
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
#pragma unroll
      for (int i = 0; i < N; ++i) sums[i] += x[u][i] * x[u][i];
    }
  }
  float sum = 0;
#pragma unroll
  for (int i = 0; i < N; ++i) sum += sums[i];
  if (num_tiles % gridDim.x == blockIdx.x) {  // elements that do not fill a tile
    for (std::int64_t i = num_tiles * kTile + threadIdx.x; i < a.numel; i += kThreads) {
      const float x = device::to_float(values[i]);
      sum += x * x;
    }
  }
  sum = device::block_sum(sum, scratch);
  if (threadIdx.x == 0) a.partials[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(kThreads) step_sums_kernel(const StepSumsArguments a) {
  __shared__ double scratch[kThreads];
  double sum = 0;
  for (int p = static_cast<int>(threadIdx.x); p < a.num_partials; p += kThreads) {
    sum += static_cast<double>(a.partials[p]);
  }
  scratch[threadIdx.x] = sum;
  for (int width = kThreads / 2; width > 0; width /= 2) {
    __syncthreads();
    if (threadIdx.x < width) scratch[threadIdx.x] += scratch[threadIdx.x + width];
  }
  for (int d = static_cast<int>(threadIdx.x); d < a.num_details; d += kThreads) {
    a.sums[2 + kNumRequests + d] = a.details[d];
  }
  if (threadIdx.x != 0) return;
  a.sums[0] = *a.loss;
  a.sums[1] = static_cast<float>(scratch[0]);
  for (int r = 0; r < kNumRequests; ++r) a.sums[2 + r] = a.requests[r];
}

__global__ void __launch_bounds__(kThreads) step_scalars_kernel(const StepScalarsArguments a) {
  for (int d = static_cast<int>(threadIdx.x); d < a.num_details; d += kThreads) {
    a.outcome[3 + kNumRequests + d] = a.sums[2 + kNumRequests + d];
  }
  if (threadIdx.x != 0) return;
  const float loss = a.sums[0];
  const float norm = sqrtf(a.sums[1]);
  const bool skip = !isfinite(norm + loss) || loss > a.loss_bound || norm > a.norm_bound;
  a.outcome[0] = loss;
  a.outcome[1] = norm;
  a.outcome[2] = skip ? 1.0F : 0.0F;
  for (int r = 0; r < kNumRequests; ++r) a.outcome[3 + r] = a.sums[2 + r];
  *a.clip_factor = a.max_norm > 0 ? fminf(1.0F / (norm + 1e-6F) * a.max_norm, 1.0F) : 1.0F;
  *a.skip = skip ? 1 : 0;
}

template <typename T>
void launch_norm(const SquaredNormArguments& a, cudaStream_t stream) {
  constexpr int kVecSize = 16 / sizeof(T);
  if (can_vectorize(kVecSize, sizeof(T), a.values)) {
    squared_norm_kernel<T, kVecSize><<<a.num_partials, kThreads, 0, stream>>>(a);
  } else {
    squared_norm_kernel<T, 1><<<a.num_partials, kThreads, 0, stream>>>(a);
  }
}

}  // namespace

void launch_squared_norm(const SquaredNormArguments& arguments, void* stream) {
  const auto cuda_stream = static_cast<cudaStream_t>(stream);
  if (arguments.dtype == DataType::kBFloat16) {
    launch_norm<__nv_bfloat16>(arguments, cuda_stream);
  } else {
    launch_norm<float>(arguments, cuda_stream);
  }
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

void launch_step_sums(const StepSumsArguments& arguments, void* stream) {
  step_sums_kernel<<<1, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(arguments);
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

void launch_step_scalars(const StepScalarsArguments& arguments, void* stream) {
  step_scalars_kernel<<<1, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(arguments);
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

}  // namespace packtrain
