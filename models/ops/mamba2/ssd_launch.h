#pragma once

#include <cstdint>

#include "framework/core/data_type.h"
#include "models/ops/delta_rule/delta_rule_launch.h"

namespace packtrain {

// The sizes are those of ssd.h. Rows of x, b, c and their gradients may have gaps, heads and groups
// none. All kernels read these.
struct SsdArguments {
  const void* x = nullptr;  // [T, H, P]
  const void* b = nullptr;  // [T, G, N]
  const void* c = nullptr;
  std::int64_t x_stride = 0;  // elements from one row to the next
  std::int64_t b_stride = 0;
  std::int64_t c_stride = 0;
  const float* steps = nullptr;       // [T, H]
  const float* g = nullptr;           // [T, H]
  const float* skip = nullptr;        // D, [H]
  void* output = nullptr;             // forward: [T, H, P]
  const void* grad_output = nullptr;  // backward: [T, H, P]
  void* grad_x = nullptr;             // backward
  void* grad_b = nullptr;
  void* grad_c = nullptr;
  std::int64_t grad_x_stride = 0;
  std::int64_t grad_b_stride = 0;
  std::int64_t grad_c_stride = 0;
  float* grad_steps = nullptr;     // backward: [T, H]
  float* grad_g = nullptr;         // backward: [T, H]
  float* skip_partials = nullptr;  // backward: [num_chunks, H]

  const DeltaRuleChunkRows* chunks = nullptr;    // [num_chunks], on the device
  const DeltaRuleSequence* sequences = nullptr;  // [num_sequences]
  int num_chunks = 0;
  int num_heads = 0;
  int num_groups = 0;
  int head_dim = 0;   // P
  int state_dim = 0;  // N
};

// The kernels for all sizes read these. Their products are float32.
struct SsdGeneralArguments : SsdArguments {
  // Values between the kernels.
  float* sums = nullptr;         // a: running sums of g in a chunk, [T, H]
  float* states = nullptr;       // between chunks, [slots, H, N, P]
  float* grad_states = nullptr;  // backward: [slots, H, N, P]

  int num_sequences = 0;
  bool has_slots = false;  // some sequence has several chunks
  DataType dtype = DataType::kFloat32;
};

// Each needs the values of those before it. `stream` is a cudaStream_t. Each throws Error(kDevice)
// when the launch fails.
// sums and states.
void launch_ssd_states(const SsdGeneralArguments& arguments, void* stream);
void launch_ssd_output(const SsdGeneralArguments& arguments, void* stream);
// grad_states, then the gradients of the inputs and the partial sums of dD.
void launch_ssd_gradients(const SsdGeneralArguments& arguments, void* stream);

}  // namespace packtrain
