#pragma once

#include <cstdint>

namespace packtrain {

// T rows, E experts, k experts for each row.
struct RoutingShape {
  std::int64_t num_rows = 0;
  std::int64_t num_experts = 0;
  std::int64_t experts_per_row = 1;
  bool normalize = false;
};

struct RoutingOutputs {
  float* weights = nullptr;         // [T, k]
  std::int32_t* experts = nullptr;  // [T, k]
  float* probabilities = nullptr;   // [T, E] or null
};

struct RoutingGradients {
  const float* weights = nullptr;             // w, [T, k]
  const std::int32_t* experts = nullptr;      // [T, k]
  const float* probabilities = nullptr;       // p, [T, E]; null when normalized and without dp
  const float* grad_weights = nullptr;        // dw, [T, k]
  const float* grad_probabilities = nullptr;  // dp, [T, E] or null
};

// `stream` is a cudaStream_t. Both throw Error(kDevice) when the launch fails. logits [T, E].
void launch_routing(const RoutingShape& shape, const float* logits, const RoutingOutputs& outputs,
                    void* stream);
// grad_logits [T, E].
void launch_routing_backward(const RoutingShape& shape, const RoutingGradients& gradients,
                             float* grad_logits, void* stream);

}  // namespace packtrain
