// Bound by float64 arithmetic. Neighbouring threads write neighbouring elements, and nothing is
// read.
#include <algorithm>

#include "framework/device/cuda/check.h"
#include "models/ops/random_normal/random_normal_launch.h"

namespace packtrain {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kMaxBlocks = 132 * 8 * 8;
constexpr double kTwoPi = 2.0 * 3.141592653589793;

// The same steps in the same order as CounterRandom::normal.
__device__ double normal(const CounterRandom& random, std::uint64_t counter) {
  const double u = 1.0 - random.uniform(2 * counter);
  const double v = random.uniform(2 * counter + 1);
  return sqrt(-2.0 * log(u)) * cos(kTwoPi * v);
}

__global__ void __launch_bounds__(kThreads) random_normal_kernel(const RandomNormalArguments a) {
  const std::int64_t stride = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < a.numel;
       i += stride) {
    const auto counter = static_cast<std::uint64_t>(a.begin + i);
    a.values[i] = static_cast<float>(a.deviation * normal(a.random, counter));
  }
}

}  // namespace

void launch_random_normal(const RandomNormalArguments& arguments, void* stream) {
  const std::int64_t num_blocks = std::min(kMaxBlocks, (arguments.numel + kThreads - 1) / kThreads);
  random_normal_kernel<<<static_cast<unsigned>(num_blocks), kThreads, 0,
                         static_cast<cudaStream_t>(stream)>>>(arguments);
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

}  // namespace packtrain
