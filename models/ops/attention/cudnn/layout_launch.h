#pragma once

#include <cstdint>

namespace packtrain {

struct AttentionLayoutArguments {
  const std::int32_t* cu_seqlens = nullptr;  // [num_in_batch + 1]
  std::int64_t num_in_batch = 0;
  std::int64_t num_sequences = 0;  // >= num_in_batch
  std::int32_t* lengths = nullptr;
  void* offsets = nullptr;                  // [4, row_stride]
  std::int64_t row_stride = 0;              // >= num_sequences + 1
  std::int64_t elements_per_token[4] = {};  // of each row of offsets
  bool wide_offsets = false;
};

// `stream` is a cudaStream_t. Throws Error(kDevice) when the launch fails.
void launch_attention_layout(const AttentionLayoutArguments& arguments, void* stream);

}  // namespace packtrain
