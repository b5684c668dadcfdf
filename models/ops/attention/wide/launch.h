// Kernels of attention with heads of 512 elements, which cuDNN and FlashAttention do not have.
#pragma once

#include <cstdint>

namespace packtrain {

inline constexpr int kWideHeadDim = 512;
// Shared memory of a block of threads. The large kernels need the first, the small ones the second.
// GPUs of 9.0 and 10.0 have both, 8.0 has the second, 8.6 and 8.9 neither.
inline constexpr int kWideSharedBytes = 227 << 10;
inline constexpr int kSmallWideSharedBytes = 163 << 10;

// Elements are bfloat16, statistics float32. Heads of a row follow each other.
struct WideAttentionArguments {
  const void* query = nullptr;  // [T, num_heads, 512]
  const void* key = nullptr;    // [K, num_kv_heads, 512]
  const void* value = nullptr;
  std::int64_t query_stride = 0;      // elements from one row to the next
  std::int64_t key_stride = 0;        // of keys and values
  void* output = nullptr;             // [T, num_heads, 512], which the forward writes
  float* logsumexp = nullptr;         // [T, num_heads], which the forward writes
  const void* grad_output = nullptr;  // [T, num_heads, 512]
  float* delta = nullptr;             // [T, num_heads] sums of dO O, which the query kernel writes
  void* grad_query = nullptr;         // [T, num_heads, 512]
  void* grad_key = nullptr;           // [K, num_kv_heads, 512]
  void* grad_value = nullptr;

  const std::int32_t* cu_queries = nullptr;  // [num_sequences + 1]
  const std::int32_t* cu_keys = nullptr;     // the queries of a sequence are those of its last keys
  std::int64_t num_rows = 0;                 // T
  std::int64_t num_keys = 0;                 // K
  int num_sequences = 0;
  int num_heads = 0;
  int num_kv_heads = 0;
  int window = 0;  // keys that a query sees, its own included; 0: all before it
  float scale = 0;
  bool is_small = false;  // use at most kSmallWideSharedBytes
};

// `stream` is a cudaStream_t. They throw Error(kDevice) when the launch fails. In the backward the
// kernel of queries runs first.
void launch_wide_attention_forward(const WideAttentionArguments& arguments, void* stream);
void launch_wide_attention_backward_queries(const WideAttentionArguments& arguments, void* stream);
void launch_wide_attention_backward_keys(const WideAttentionArguments& arguments, void* stream);

}  // namespace packtrain
