// The products of a frozen weight with 8-bit operands (ops/fp8), under a low-rank update whose own
// products read what precision.compute has.
#pragma once

#include "models/block/operator_context.h"
#include "models/block/operator_tape.h"
#include "models/ops/linear/fp8_lora_linear.h"

namespace packtrain {

// The parts of a linear layer that its base product reads.
struct Fp8Base {
  Value x;
  ParameterId weight;
};

struct Fp8BaseOutput {
  at::Tensor y;
  at::Tensor weight_scale;  // float32 [2], for the backward
};

// x W^T + bias + residual + the update. `bias` and `update` may be null, `residual` undefined.
Fp8BaseOutput fp8_base_forward(OperatorContext& run, const Fp8Base& base, const Parameter* bias,
                               const at::Tensor& residual, const Fp8LoraForward* update = nullptr);
// g W, the gradient of x so far, and what the update adds. g is the gradient of y. Frees g before
// there is the result: nothing may read it after.
at::Tensor fp8_base_backward_input(OperatorContext& run, const Fp8Base& base, Value y,
                                   const at::Tensor& weight_scale, const Fp8LoraBackward& update);

}  // namespace packtrain
