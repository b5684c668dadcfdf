#pragma once

#include <cstdint>

namespace packtrain {

// Rows of the lengths and offsets: those of queries first, then those of keys.
inline constexpr int kNumQueryOffsets = 3;
inline constexpr int kNumOffsets = 5;

struct AttentionLayoutArguments {
  const std::int32_t* cu_queries = nullptr;  // [num_in_batch + 1]
  const std::int32_t* cu_keys = nullptr;     // the same
  std::int64_t num_in_batch = 0;
  const std::int32_t* chosen = nullptr;  // [num_chosen] sequences of the batch; null: all of them
  std::int64_t num_chosen = 0;           // num_in_batch without `chosen`
  std::int64_t num_sequences = 0;        // >= num_chosen
  std::int32_t* lengths = nullptr;       // [2, row_stride]
  void* offsets = nullptr;               // [kNumOffsets, row_stride]
  std::int64_t row_stride = 0;           // >= num_sequences + 1
  std::int64_t elements_per_token[kNumOffsets] = {};  // of each row of offsets
  bool wide_offsets = false;
};

// `stream` is a cudaStream_t. Throws Error(kDevice) when the launch fails.
void launch_attention_layout(const AttentionLayoutArguments& arguments, void* stream);

}  // namespace packtrain
