// One compiled cuDNN attention, forward or backward, for all batches that fit its sizes.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>

namespace packtrain {

// Parameters that a plan is compiled for. Lengths and offsets of sequences are data that the device
// reads.
struct CudnnProblem {
  bool backward = false;
  std::int64_t num_heads = 0;
  std::int64_t num_kv_heads = 0;
  std::int64_t head_dim = 0;
  double scale = 0;
  std::int64_t window = 0;         // keys a query attends to; 0: all before it
  double soft_cap = 0;             // of scores; 0: none
  std::int64_t num_sequences = 0;  // upper limit: absent sequences have length 0
  std::int64_t max_length = 0;
  // The totals of all sequences set the size of the workspace.
  std::int64_t num_tokens = 0;  // queries
  std::int64_t num_keys = 0;
  // Sequences have keys before those of their queries. Keys and values are then in a tensor of
  // their own, and the last query of a sequence sees its last key.
  bool has_prefixes = false;
  bool wide_offsets = false;  // int64 instead of int32

  friend auto operator<=>(const CudnnProblem&, const CudnnProblem&) = default;
};

// Device pointers of one call. Offsets are in elements, [num_sequences + 1]: the start of each
// sequence in tensors with the given number of elements a token.
struct CudnnPointers {
  void* query = nullptr;  // bf16, tokens (num_heads + 2 num_kv_heads) head_dim apart
  // Keys and values: the same; with prefixes tokens are 2 num_kv_heads head_dim apart.
  void* key = nullptr;
  void* value = nullptr;
  void* output = nullptr;       // bf16 [T, num_heads, head_dim]
  void* stats = nullptr;        // float32 [T, num_heads], logsumexp of the softmax
  void* grad_output = nullptr;  // bf16 [T, num_heads, head_dim]; this and below for backward
  // Must have the query's token stride: cuDNN 9.19 addresses dq by the query's offsets and ignores
  // those of dq.
  void* grad_query = nullptr;
  void* grad_key = nullptr;       // bf16 [keys, num_kv_heads, head_dim]
  void* grad_value = nullptr;     // the same
  void* query_lengths = nullptr;  // int32 [num_sequences]
  void* key_lengths = nullptr;    // the same
  void* query_offsets = nullptr;  // (num_heads + 2 num_kv_heads) head_dim a token
  void* key_offsets = nullptr;    // of keys and values
  void* head_offsets = nullptr;   // num_heads head_dim a token
  void* kv_offsets = nullptr;     // num_kv_heads head_dim a key
  void* stat_offsets = nullptr;   // num_heads a token
};

class CudnnPlan {
 public:
  // Compiles the plan. This takes 35 to 80 ms, and about a second for the first plan of a process.
  // `handle` is a cudnnHandle_t. Throws Error(kDevice), which names the problem and cuDNN's reason,
  // when there is no such kernel, and what check_cudnn_version throws.
  CudnnPlan(const CudnnProblem& problem, void* handle);
  ~CudnnPlan();

  std::int64_t workspace_bytes() const { return workspace_bytes_; }

  // Runs on the handle's stream, from any thread. Throws Error(kDevice).
  void run(const CudnnPointers& pointers, void* workspace, void* handle) const;

 private:
  struct Graph;
  CudnnProblem problem_;
  std::unique_ptr<Graph> graph_;
  std::int64_t workspace_bytes_ = 0;
};

}  // namespace packtrain
