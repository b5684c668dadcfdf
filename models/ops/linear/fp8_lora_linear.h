// A linear layer with a frozen weight in 8-bit floats (ops/fp8/fp8_linear.h) and its low-rank
// update in the dtype of s (lora_linear.h):
//    y = x W^T + b + r + the updates of s     x and W in e4m3
//    dx = g W + d(x A^T) A + sum              g in e5m2, W in e4m3
// On Hopper in bfloat16 each is one launch (lora_fp8_gemm.cu): accumulators get the update after
// the 8-bit products, and are rounded once. There dx is summed as the forward is, in about 14 bits:
// its operands have 3 of them. Elsewhere the products run one after another.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "models/block/adapter_rows.h"
#include "models/block/block.h"
#include "models/ops/linear/lora_linear.h"
#include "models/ops/matmul/matmul.h"

namespace packtrain {

// The terms that an update adds to y.
struct Fp8LoraForward {
  at::Tensor s;
  LoraModules modules;
  std::vector<const Parameter*> b;  // one for each module
  AdapterRows rows = {};
};

// x [T, K]. Writes the weight's scale (fp8_weight_rows). `bias` may be null, `residual` undefined.
at::Tensor fp8_lora_linear_forward(const Fp8Operand& x, const Parameter& weight,
                                   const at::Tensor& weight_scale, const Parameter* bias,
                                   const Fp8LoraForward& update, const GemmTiming& timing,
                                   const at::Tensor& residual);

// The terms that it adds to dx. There are none without modules.
struct Fp8LoraBackward {
  at::Tensor grad_low_rank;
  Parameter a;
  LoraModules modules;
  LoraDropout dropout = {};
  AdapterRows rows = {};
};

// g [T, N]. `sum` may be undefined.
at::Tensor fp8_lora_linear_backward_input(const Fp8Operand& grad_output, const Parameter& weight,
                                          const at::Tensor& weight_scale,
                                          const Fp8LoraBackward& update, const GemmTiming& timing,
                                          const at::Tensor& sum);

}  // namespace packtrain
