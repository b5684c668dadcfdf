#include "framework/device/cuda/check.h"
#include "models/ops/attention/cudnn/layout_launch.h"

namespace packtrain {
namespace {

constexpr int kThreads = 256;

// One thread a sequence, and one for the end. cuDNN's plan has a fixed number of sequences. Those
// beyond the batch get length 0 and the offset of the batch's end.
template <typename Offset>
__global__ void layout_kernel(AttentionLayoutArguments a) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i > a.num_sequences) return;
  const bool is_there = i < a.num_chosen;
  const std::int64_t in_batch = is_there && a.chosen != nullptr ? a.chosen[i] : i;
  const std::int64_t at = is_there ? in_batch : a.num_in_batch;
  const std::int64_t query = a.cu_queries[at];
  const std::int64_t key = a.cu_keys[at];
  if (i < a.num_sequences) {
    a.lengths[i] = is_there ? a.cu_queries[at + 1] - static_cast<std::int32_t>(query) : 0;
    a.lengths[a.row_stride + i] = is_there ? a.cu_keys[at + 1] - static_cast<std::int32_t>(key) : 0;
  }
  auto* offsets = static_cast<Offset*>(a.offsets);
#pragma unroll
  for (int row = 0; row < kNumOffsets; ++row) {
    const std::int64_t begin = row < kNumQueryOffsets ? query : key;
    offsets[row * a.row_stride + i] = static_cast<Offset>(begin * a.elements_per_token[row]);
  }
}

}  // namespace

void launch_attention_layout(const AttentionLayoutArguments& arguments, void* stream) {
  const auto blocks = static_cast<unsigned>(arguments.num_sequences / kThreads + 1);
  const auto cuda_stream = static_cast<cudaStream_t>(stream);
  if (arguments.wide_offsets) {
    layout_kernel<std::int64_t><<<blocks, kThreads, 0, cuda_stream>>>(arguments);
  } else {
    layout_kernel<std::int32_t><<<blocks, kThreads, 0, cuda_stream>>>(arguments);
  }
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

}  // namespace packtrain
