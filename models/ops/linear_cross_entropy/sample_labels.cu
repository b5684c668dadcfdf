// A block has one row. A thread finds the best of its vectors of logits, then the block the best of
// its threads. Bound by the arithmetic of the random bits and logarithms: some 40 instructions an
// element.
#include "framework/device/cuda/check.h"
#include "models/ops/cuda/vector.cuh"
#include "models/ops/linear_cross_entropy/label_noise.h"
#include "models/ops/linear_cross_entropy/sample_labels_launch.h"
#include "models/ops/linear_cross_entropy/softmax.cuh"

namespace packtrain {
namespace {

constexpr int kThreads = 512;

// A value and its id as one number. A larger value gives a larger one, then a lower id. Its value
// is above 0, and 0 stands for no value.
__device__ std::uint64_t ordered(float value, std::int64_t id) {
  const std::uint32_t bits = __float_as_uint(value);
  const std::uint32_t rising = (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
  return (std::uint64_t{rising} << 32U) | (0xFFFFFFFFU - static_cast<std::uint32_t>(id));
}

__device__ std::uint64_t block_max(std::uint64_t value) {
  __shared__ std::uint64_t of_warps[kThreads / 32];
  for (int offset = 16; offset > 0; offset /= 2) {
    value = max(value, __shfl_xor_sync(~0U, value, offset));
  }
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = value;
  __syncthreads();
  for (int warp = 0; warp < kThreads / 32; ++warp) value = max(value, of_warps[warp]);
  return value;
}

template <typename T, bool kCapped>
__global__ void __launch_bounds__(kThreads) sample_labels_kernel(const SampleLabelsArguments a) {
  constexpr int kVecSize = 16 / sizeof(T);
  const std::int64_t n = blockIdx.x;
  const T* row = static_cast<const T*>(a.logits) + n * a.row_stride;
  const std::int64_t seed = a.row_seeds[n];
  const device::Cap cap{a.soft_cap, kCapped ? 1.0F / a.soft_cap : 0.0F};
  const auto log = [](float x) { return __logf(x); };
  float best = -INFINITY;
  std::int64_t label = 0;
  for (std::int64_t at = std::int64_t{threadIdx.x} * kVecSize; at < a.vocab_size;
       at += std::int64_t{kThreads} * kVecSize) {
    float z[kVecSize];
    device::load(row + at, z);
    RandomWords words{};
#pragma unroll
    for (int i = 0; i < kVecSize; ++i) {
      const int in_group = i % kLabelNoiseGroup;
      if (in_group == 0) words = label_noise(seed, (at + i) / kLabelNoiseGroup);
      const float s = kCapped ? cap.of(z[i]) : z[i];
      const float value = s - __logf(exponential_noise(words.values[in_group], log));
      if (value > best && at + i < a.vocab_size) {
        best = value;
        label = at + i;
      }
    }
  }
  const std::uint64_t found = block_max(best > -INFINITY ? ordered(best, label) : 0);
  if (threadIdx.x != 0) return;
  const auto id = static_cast<std::int32_t>(0xFFFFFFFFU - static_cast<std::uint32_t>(found));
  a.labels[n] = found == 0 ? 0 : id;
}

template <typename T>
void launch_rows(const SampleLabelsArguments& a, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(a.num_rows);
  if (a.soft_cap != 0) {
    sample_labels_kernel<T, true><<<blocks, kThreads, 0, stream>>>(a);
  } else {
    sample_labels_kernel<T, false><<<blocks, kThreads, 0, stream>>>(a);
  }
}

}  // namespace

void launch_sample_labels(const SampleLabelsArguments& arguments, void* stream) {
  const auto cuda_stream = static_cast<cudaStream_t>(stream);
  if (arguments.dtype == DataType::kBFloat16) {
    launch_rows<__nv_bfloat16>(arguments, cuda_stream);
  } else {
    launch_rows<float>(arguments, cuda_stream);
  }
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

}  // namespace packtrain
