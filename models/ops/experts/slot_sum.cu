// Bound by memory: a thread adds up one run of 16 bytes of a row; the runs of its slots are
// independent, so that several are under way.
#include "framework/device/cuda/check.h"
#include "models/ops/cuda/divisor.cuh"
#include "models/ops/cuda/launch.h"
#include "models/ops/cuda/vector.cuh"
#include "models/ops/experts/slot_sum_launch.h"

namespace packtrain {
namespace {

constexpr int kThreads = 256;

template <typename T, int N>
__global__ void __launch_bounds__(kThreads)
    slot_sum_kernel(const SlotSumArguments a, const device::Divisor runs_a_row,
                    const std::int64_t num_runs) {
  const std::int64_t run = std::int64_t{kThreads} * blockIdx.x + threadIdx.x;
  if (run >= num_runs) return;
  const std::int64_t row = runs_a_row.quotient(run);
  const std::int64_t column = run * N - row * a.width;
  const std::int32_t* places = a.places + row * a.num_slots;
  float sum[N] = {};
#pragma unroll 4
  for (int s = 0; s < a.num_slots; ++s) {
    float value[N];
    device::load(static_cast<const T*>(a.values) + places[s] * a.width + column, value);
    const float weight = a.weights == nullptr ? 1.0F : a.weights[row * a.num_slots + s];
#pragma unroll
    for (int i = 0; i < N; ++i) sum[i] += weight * value[i];
  }
  if (a.addend != nullptr) {
    float value[N];
    device::load(static_cast<const T*>(a.addend) + run * N, value);
#pragma unroll
    for (int i = 0; i < N; ++i) sum[i] += value[i];
  }
  device::store(sum, static_cast<T*>(a.output) + run * N);
}

template <typename T, int N>
void launch_runs(const SlotSumArguments& a, cudaStream_t stream) {
  const std::int64_t runs_a_row = a.width / N;
  const std::int64_t num_runs = a.num_rows * runs_a_row;
  const auto blocks = static_cast<unsigned>((num_runs + kThreads - 1) / kThreads);
  slot_sum_kernel<T, N><<<blocks, kThreads, 0, stream>>>(a, device::Divisor(runs_a_row), num_runs);
}

template <typename T>
void launch_type(const SlotSumArguments& a, cudaStream_t stream) {
  if (can_vectorize(a.width, sizeof(T), a.values, a.addend, a.output)) {
    launch_runs<T, 16 / sizeof(T)>(a, stream);
  } else {
    launch_runs<T, 1>(a, stream);
  }
}

}  // namespace

void launch_slot_sum(const SlotSumArguments& arguments, void* stream) {
  if (arguments.num_rows == 0 || arguments.width == 0) return;
  const auto on = static_cast<cudaStream_t>(stream);
  arguments.bfloat16 ? launch_type<__nv_bfloat16>(arguments, on)
                     : launch_type<float>(arguments, on);
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

}  // namespace packtrain
