// A thread handles the four elements that share 64 random bits.
#include <cuda_bf16.h>

#include <algorithm>

#include "framework/device/cuda/check.h"
#include "models/ops/dropout/dropout_bits.h"
#include "models/ops/dropout/dropout_launch.h"

namespace packtrain {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kMaxBlocks = 132 * 8 * 8;

template <class Value>
__global__ void __launch_bounds__(kThreads)
    dropout_kernel(const DropoutArguments a, std::uint32_t threshold, float scale) {
  const auto* x = static_cast<const Value*>(a.x);
  auto* y = static_cast<Value*>(a.y);
  const std::int64_t groups = (a.width + kDropoutGroup - 1) / kDropoutGroup;
  const std::int64_t stride = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < a.num_rows * groups;
       i += stride) {
    const std::int64_t row = i / groups;
    const std::int64_t group = i % groups;
    const std::uint64_t bits = dropout_bits(a.key, static_cast<std::uint32_t>(a.row_seeds[row]),
                                            static_cast<std::uint32_t>(group));
    const std::int64_t first = row * a.width + group * kDropoutGroup;
    for (int e = 0; e < kDropoutGroup && group * kDropoutGroup + e < a.width; ++e) {
      const float value = static_cast<float>(x[first + e]) * scale;
      y[first + e] = static_cast<Value>(dropout_keeps(bits, e, threshold) ? value : 0.0F);
    }
  }
}

template <class Value>
void launch(const DropoutArguments& a, cudaStream_t stream) {
  const std::int64_t groups = (a.width + kDropoutGroup - 1) / kDropoutGroup;
  const std::int64_t num_blocks =
      std::min(kMaxBlocks, (a.num_rows * groups + kThreads - 1) / kThreads);
  const auto scale = static_cast<float>(1 / (1 - a.probability));
  dropout_kernel<Value><<<static_cast<unsigned>(num_blocks), kThreads, 0, stream>>>(
      a, dropout_threshold(a.probability), scale);
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

}  // namespace

void launch_dropout(const DropoutArguments& arguments, void* stream) {
  if (arguments.dtype == DataType::kFloat32) {
    launch<float>(arguments, static_cast<cudaStream_t>(stream));
  } else {
    launch<__nv_bfloat16>(arguments, static_cast<cudaStream_t>(stream));
  }
}

}  // namespace packtrain
