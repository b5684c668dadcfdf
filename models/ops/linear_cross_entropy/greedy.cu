// A block has one row. An id is better than the label if its logit is larger, or the same and the
// id lower. All threads stop after the first tile with a better id. So a row is read whole only if
// its label is greedy.
#include "framework/device/cuda/check.h"
#include "models/ops/cuda/vector.cuh"
#include "models/ops/linear_cross_entropy/greedy_launch.h"

namespace packtrain {
namespace {

constexpr int kThreads = 256;
constexpr int kVectors = 4;  // that a thread has in flight

template <typename T>
__global__ void __launch_bounds__(kThreads) greedy_kernel(const GreedyArguments a) {
  constexpr int kVecSize = 16 / sizeof(T);
  constexpr std::int64_t kTile = kThreads * kVectors * kVecSize;
  using Packed = device::Vec<T, kVecSize>;
  const std::int64_t n = blockIdx.x;
  const T* row = static_cast<const T*>(a.logits) + n * a.row_stride;
  const std::int64_t label = a.labels[n];
  const float of_label = device::to_float(row[label]);
  const auto is_better = [&](float z, std::int64_t id) {
    // A logit that is not a number counts as better.
    return id < a.vocab_size && !(z < of_label || (z == of_label && id >= label));
  };
  bool is_greedy = true;
  for (std::int64_t tile = 0; tile < a.vocab_size && is_greedy; tile += kTile) {
    Packed loaded[kVectors];
#pragma unroll
    for (int u = 0; u < kVectors; ++u) {
      const std::int64_t at = tile + (u * kThreads + threadIdx.x) * kVecSize;
      if (at < a.vocab_size) loaded[u] = *reinterpret_cast<const Packed*>(row + at);
    }
    bool found = false;
#pragma unroll
    for (int u = 0; u < kVectors; ++u) {
      const std::int64_t at = tile + (u * kThreads + threadIdx.x) * kVecSize;
      if (at >= a.vocab_size) continue;
      float z[kVecSize];
      device::unpack(loaded[u], z);
#pragma unroll
      for (int i = 0; i < kVecSize; ++i) found = found || is_better(z[i], at + i);
    }
    is_greedy = __syncthreads_or(found) == 0;
  }
  if (threadIdx.x == 0) a.greedy[n] = is_greedy;
}

}  // namespace

void launch_greedy_labels(const GreedyArguments& arguments, void* stream) {
  const auto blocks = static_cast<unsigned>(arguments.num_rows);
  auto* const queue = static_cast<cudaStream_t>(stream);
  if (arguments.dtype == DataType::kFloat32) {
    greedy_kernel<float><<<blocks, kThreads, 0, queue>>>(arguments);
  } else {
    greedy_kernel<__nv_bfloat16><<<blocks, kThreads, 0, queue>>>(arguments);
  }
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

}  // namespace packtrain
