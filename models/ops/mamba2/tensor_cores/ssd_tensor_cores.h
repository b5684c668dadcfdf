// The state space model's kernels on tensor cores, for bfloat16 and GPUs from sm_80 on.
#pragma once

#include <cstdint>

#include "models/ops/mamba2/ssd_launch.h"

namespace packtrain {

// P and N are multiples of 8. Pointers and strides of rows are multiples of 16 bytes. Products read
// bfloat16, also of the states. Sums are float32. C is kDeltaRuleChunk.
struct SsdTensorCoreArguments : SsdArguments {
  // The rows of a head follow each other: [H, T].
  float* head_sums = nullptr;    // a: running sums of g in a chunk
  float* head_decays = nullptr;  // exp(a)
  float* head_steps = nullptr;   // d
  float* head_inputs = nullptr;  // exp(a_L - a) d
  // c_i b_j for rows i and j of a chunk, [T, G, C]. Backward a second time, with rows j.
  float* scores = nullptr;
  void* slot_states = nullptr;  // between chunks, [slots, H, N, P]
  void* slot_grads = nullptr;   // backward: their gradients
  // Backward: parts of sums.
  float* state_products = nullptr;  // S' dS', [slots, H, state_parts]
  float* row_products = nullptr;    // c dc, [row_parts, T, H]
  float* grad_parts = nullptr;      // db, then dc, [2, 2 head_parts, T, G, N]

  std::int64_t num_rows = 0;
  int num_long = 0;    // sequences of several chunks, which are the first ones of the table
  int head_parts = 1;  // of the heads of a group, each of which has its blocks of threads
  // Derived from P and N, by the functions below.
  int column_tiles = 0;
  int state_tiles = 0;
  int group_tiles = 0;
  int state_parts = 0;
  int row_parts = 0;
};

// Columns of P and rows of N that a block of threads has.
inline constexpr int kSsdStateTile = 64;
inline constexpr int kSsdGroupTile = 128;  // of N, in the kernel of db and dc
inline constexpr int kSsdMaxColumns = 128;
inline constexpr int kSsdMaxState = 256;

constexpr int ssd_tiles_of(std::int64_t size, int tile) {
  return static_cast<int>((size + tile - 1) / tile);
}
// Parts of the sums above.
constexpr int ssd_state_parts(std::int64_t state_dim, std::int64_t head_dim) {
  constexpr int kWarps = 4;
  return kWarps * ssd_tiles_of(state_dim, kSsdStateTile) * ssd_tiles_of(head_dim, kSsdStateTile);
}
constexpr int ssd_row_parts(std::int64_t state_dim) {
  return 1 + 2 * ssd_tiles_of(state_dim, kSsdGroupTile);
}

// Each needs the values of those before it. `stream` is a cudaStream_t. Each throws Error(kDevice)
// when the launch fails.
// Values of rows, scores, and states after all chunks but the last one of a sequence.
void launch_ssd_tensor_states(const SsdTensorCoreArguments& arguments, void* stream);
void launch_ssd_tensor_output(const SsdTensorCoreArguments& arguments, void* stream);
// Gradients of states between chunks.
void launch_ssd_tensor_grad_states(const SsdTensorCoreArguments& arguments, void* stream);
// dx, dd, and partial sums of dD.
void launch_ssd_tensor_grad_rows(const SsdTensorCoreArguments& arguments, void* stream);
// Parts of the sums of db, dc and c dc: of rows of the same chunk, then of states.
void launch_ssd_tensor_grad_weights(const SsdTensorCoreArguments& arguments, void* stream);
void launch_ssd_tensor_grad_groups(const SsdTensorCoreArguments& arguments, void* stream);
// db, dc and dg.
void launch_ssd_tensor_sums(const SsdTensorCoreArguments& arguments, void* stream);

}  // namespace packtrain
