#pragma once

#include <cstdint>

namespace packtrain {

// Rows of one chunk of a sequence. A boundary between two chunks of a sequence has a slot, which
// holds the state there, and the gradient of the state.
struct DeltaRuleChunkRows {
  std::int32_t first_row = 0;
  std::int32_t num_rows = 0;
  std::int32_t slot_before = 0;  // -1: the first chunk of its sequence, whose state is zero
  std::int32_t slot_after = 0;   // -1: the last one
};

struct DeltaRuleSequence {
  std::int32_t first_chunk = 0;
  std::int32_t num_chunks = 0;
};

// C = kDeltaRuleChunk, H heads, HK heads of queries and keys. Elements are bfloat16, a row's heads
// follow each other. K and V are multiples of 8, pointers and strides of 16 bytes.
struct DeltaRuleArguments {
  const void* q = nullptr;  // [T, HK, K]
  const void* k = nullptr;
  const void* v = nullptr;    // [T, H, V]
  std::int64_t q_stride = 0;  // elements from one row to the next
  std::int64_t k_stride = 0;
  std::int64_t v_stride = 0;
  const float* g = nullptr;           // [T, H]
  const float* beta = nullptr;        // [T, H]
  void* output = nullptr;             // [T, H, V]
  const void* grad_output = nullptr;  // [T, H, V]; null: forward
  void* grad_q = nullptr;             // [T, HK, K]
  void* grad_k = nullptr;
  void* grad_v = nullptr;  // [T, H, V]
  float* grad_g = nullptr;
  float* grad_beta = nullptr;

  // Values between the kernels.
  float* sums = nullptr;        // a: running sums of g in a chunk, [T, H]
  void* w = nullptr;            // inverse(1 + L) beta exp(a) k, [T, H, K]
  void* d = nullptr;            // inverse(1 + L) beta v, then d itself, [T, H, V]
  void* scores = nullptr;       // scale exp(a_i - a_j) q_i k_j for j <= i, [chunks, H, C, C]
  void* inverse = nullptr;      // of 1 + L, backward only, [chunks, H, C, C]
  void* states = nullptr;       // backward only, [slots, H, K, V]
  void* grad_states = nullptr;  // backward only, [slots, H, K, V]
  void* grad_d = nullptr;       // backward only, [T, H, V]

  const DeltaRuleChunkRows* chunks = nullptr;  // [num_chunks], on the device
  const std::int32_t* group_begins = nullptr;  // [num_groups + 1] chunks
  int num_chunks = 0;
  int shared_bytes = 0;   // of a block of threads, that the GPU has
  int num_groups = 0;     // of sequences, each of which has its blocks of threads in recurrences
  int columns = 0;        // of the state, of a block of threads: 32, 64 or 128
  int num_key_heads = 0;  // HK
  int num_heads = 0;      // H
  int key_dim = 0;        // K, at most kDeltaRuleMaxKeys
  int value_dim = 0;      // V
  float scale = 1;
};

inline constexpr int kDeltaRuleMaxKeys = 128;
// Shared memory of a block of threads, at most: of recurrences with 128 columns, of gradients with
// two stages, and of all other kernels. GPUs of 9.0 have all, those of 8.0 the last. 8.6, 8.9
// and 12.0 have none.
inline constexpr int kDeltaRuleWideBytes = 208 << 10;
inline constexpr int kDeltaRuleTwoStageBytes = 220 << 10;
inline constexpr int kDeltaRuleSharedBytes = 163 << 10;

// Each needs the values of those before it. `stream` is a cudaStream_t. Each throws Error(kDevice)
// when the launch fails.
// sums, w, d, scores; backward also inverse.
void launch_delta_rule_chunks(const DeltaRuleArguments& arguments, void* stream);
// The recurrence over the chunks of a sequence: forward the output, backward states and d.
void launch_delta_rule_states(const DeltaRuleArguments& arguments, void* stream);
// The recurrence of gradients: grad_states and grad_d.
void launch_delta_rule_grad_states(const DeltaRuleArguments& arguments, void* stream);
// The gradients of the inputs.
void launch_delta_rule_gradients(const DeltaRuleArguments& arguments, void* stream);

}  // namespace packtrain
