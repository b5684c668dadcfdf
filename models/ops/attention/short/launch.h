#pragma once

#include <cstdint>

namespace packtrain {

// Rows of one sequence, or of several that follow each other. As the kernels read it.
struct AttentionUnit {
  std::int32_t first_query = 0;  // row of the batch
  std::int32_t num_queries = 0;
  std::int32_t first_key = 0;  // row of the keys; without prefixes also of the batch
  std::int32_t num_keys = 0;   // the queries are those of the last keys
  std::int32_t first_sequence = 0;
  std::int32_t num_sequences = 0;  // more than one: they have no prefixes
  std::int32_t first_tile = 0;     // of dq in the workspace, counted for one query head
};

// Keys of a block of threads. Several sequences are one unit only if they have no more.
inline constexpr std::int32_t kUnitKeys = 128;
inline constexpr std::int32_t kUnitQueries = 64;  // of a tile

// Shared memory of a block of threads, at most. GPUs of 8.0 and 9.0 have it, 8.6 and 8.9 not.
inline constexpr int kShortAttentionSharedBytes = 163 << 10;

// Inputs and outputs of the backward. Elements are bfloat16, statistics float32. Heads of a row
// follow each other.
struct ShortAttentionArguments {
  const void* query = nullptr;  // [T, num_heads, D]
  const void* key = nullptr;    // [K, num_kv_heads, D]
  const void* value = nullptr;
  std::int64_t query_stride = 0;      // elements from one row to the next
  std::int64_t key_stride = 0;        // of keys and values
  const void* output = nullptr;       // [T, num_heads, D]
  const float* logsumexp = nullptr;   // [T, num_heads]
  const void* grad_output = nullptr;  // [T, num_heads, D]
  void* grad_query = nullptr;         // its rows are query_stride apart
  void* grad_key = nullptr;           // [K, num_kv_heads, D]
  void* grad_value = nullptr;
  float* workspace = nullptr;  // [num_heads, tiles, kUnitQueries, D] sums of dq over blocks of keys

  const AttentionUnit* units = nullptr;        // [num_units], on the device
  const std::int32_t* cu_sequences = nullptr;  // [sequences + 1] rows of queries
  std::int64_t num_rows = 0;                   // T
  std::int64_t num_keys = 0;                   // K
  std::int64_t num_units = 0;
  std::int64_t num_tiles = 0;
  int num_heads = 0;
  int num_kv_heads = 0;
  int head_dim = 0;
  int window = 0;  // 0: none
  float scale = 0;
};

// `stream` is a cudaStream_t. Throws Error(kDevice) when the launch fails.
void launch_short_attention_backward(const ShortAttentionArguments& arguments, void* stream);
// The same with instructions of sm_90a, for heads of 64 and 128.
void launch_short_attention_backward_hopper(const ShortAttentionArguments& arguments, void* stream);

}  // namespace packtrain
