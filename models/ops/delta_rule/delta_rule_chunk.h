// One chunk of the gated delta rule (delta_rule.h) for all heads, in float32.
#pragma once

#include <ATen/core/Tensor.h>

namespace packtrain {

// C rows of H heads.
struct DeltaRuleChunk {
  at::Tensor q;     // [H, C, K], with the scale
  at::Tensor k;     // [H, C, K]
  at::Tensor v;     // [H, C, V]
  at::Tensor sum;   // a: running sum of g, [H, C, 1]
  at::Tensor beta;  // [H, C, 1]
};

struct DeltaRuleStep {
  at::Tensor output;  // [H, C, V]
  at::Tensor state;   // after the chunk, [H, K, V]
};

struct DeltaRuleChunkGradients {
  DeltaRuleChunk inputs;
  at::Tensor state;  // of the state before the chunk
};

// `state` is that before the chunk, [H, K, V].
DeltaRuleStep delta_rule_step(const DeltaRuleChunk& chunk, const at::Tensor& state);
// `grad` has the gradients of the step's output and state.
DeltaRuleChunkGradients delta_rule_step_backward(const DeltaRuleChunk& chunk,
                                                 const at::Tensor& state,
                                                 const DeltaRuleStep& grad);

}  // namespace packtrain
