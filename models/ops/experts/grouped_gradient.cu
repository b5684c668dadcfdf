// Bound by memory: a thread has one run of 16 bytes of a product; a row of blocks has a group.
#include "framework/device/cuda/check.h"
#include "models/ops/cuda/launch.h"
#include "models/ops/cuda/vector.cuh"
#include "models/ops/experts/grouped_gradient_launch.h"

namespace packtrain {
namespace {

constexpr int kThreads = 256;

template <typename G, int N>
__global__ void __launch_bounds__(kThreads)
    grouped_gradient_kernel(const GroupedGradientArguments a) {
  const std::int64_t at = (std::int64_t{kThreads} * blockIdx.x + threadIdx.x) * N;
  if (at >= a.matrix_numel) return;
  const int group = blockIdx.y;
  const std::int32_t begin = group == 0 ? 0 : a.ends[group - 1];
  const std::int64_t offset = group * a.matrix_numel + at;
  G* const grad = static_cast<G*>(a.target.grad) + offset;
  float value[N] = {};
  if (a.ends[group] > begin) {
    device::load(static_cast<const __nv_bfloat16*>(a.products) + offset, value);
  } else if (a.target.accumulate) {
    return;
  }
  if (a.target.accumulate) {
    float before[N];
    device::load(grad, before);
#pragma unroll
    for (int i = 0; i < N; ++i) value[i] += before[i];
  }
  device::store(value, grad);
}

template <typename G, int N>
void launch_runs(const GroupedGradientArguments& a, cudaStream_t stream) {
  const std::int64_t num_runs = a.matrix_numel / N;
  const dim3 blocks(static_cast<unsigned>((num_runs + kThreads - 1) / kThreads),
                    static_cast<unsigned>(a.num_groups));
  grouped_gradient_kernel<G, N><<<blocks, kThreads, 0, stream>>>(a);
}

template <typename G>
void launch_type(const GroupedGradientArguments& a, cudaStream_t stream) {
  can_vectorize(a.matrix_numel, 2, a.products, a.target.grad) ? launch_runs<G, 8>(a, stream)
                                                              : launch_runs<G, 1>(a, stream);
}

}  // namespace

void launch_grouped_gradient(const GroupedGradientArguments& arguments, void* stream) {
  if (arguments.num_groups == 0 || arguments.matrix_numel == 0) return;
  const auto on = static_cast<cudaStream_t>(stream);
  arguments.target.bfloat16 ? launch_type<__nv_bfloat16>(arguments, on)
                            : launch_type<float>(arguments, on);
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

}  // namespace packtrain
