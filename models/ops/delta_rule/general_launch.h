// Kernels of the gated delta rule for all sizes, in float32. Those of delta_rule_launch.h are
// faster for the sizes that they take.
#pragma once

#include <cstdint>

#include "framework/core/data_type.h"
#include "models/ops/delta_rule/delta_rule_launch.h"

namespace packtrain {

// H heads of values, HK of queries and keys. Elements have `dtype`; a row's heads follow each
// other.
struct DeltaRuleGeneralArguments {
  const void* q = nullptr;  // [T, HK, K]
  const void* k = nullptr;
  const void* v = nullptr;  // [T, H, V]
  DataType dtype = DataType::kFloat32;
  std::int64_t q_stride = 0;  // elements from one row to the next
  std::int64_t k_stride = 0;
  std::int64_t v_stride = 0;
  const float* g = nullptr;           // [T, H]
  const float* beta = nullptr;        // [T, H]
  void* output = nullptr;             // forward: [T, H, V]
  const void* grad_output = nullptr;  // [T, H, V]; null: forward
  void* grad_q = nullptr;             // [T, HK, K]
  void* grad_k = nullptr;
  void* grad_v = nullptr;      // [T, H, V]
  float* grad_g = nullptr;     // [T, H]
  float* grad_beta = nullptr;  // [T, H]

  // Values between the steps, float32.
  float* d = nullptr;            // [T, H, V]
  float* states = nullptr;       // forward [num_sequences, H, K, V], backward [num_chunks, H, K, V]
  float* grad_d = nullptr;       // backward: [T, H, V]
  float* grad_states = nullptr;  // backward: [num_sequences, H, K, V]
  float* grad_q_sums = nullptr;  // backward: [T, HK, K], of the heads so far
  float* grad_k_sums = nullptr;

  const DeltaRuleChunkRows* chunks = nullptr;    // on the device
  const DeltaRuleSequence* sequences = nullptr;  // [num_sequences]
  int num_sequences = 0;
  int num_key_heads = 0;
  int num_heads = 0;
  int key_dim = 0;
  int value_dim = 0;
  float scale = 1;
};

// `stream` is a cudaStream_t. Throws Error(kDevice) when the launch fails.
void launch_delta_rule_general(const DeltaRuleGeneralArguments& arguments, void* stream);

}  // namespace packtrain
