// The products of a linear layer (ops/linear/linear.h) with 8-bit operands. Sums are float32.
//    y = x W^T + b + r     x and W in e4m3, fast accumulation
//    dx = g W + s          g in e5m2, W in e4m3
//    dW = g^T x            g in e5m2, x in e4m3
// Hopper's tensor cores sum 8-bit products with 14 bits in fast accumulation, and otherwise add
// partial sums in float32 (arXiv 2412.19437, section 3.3.2). As torchao and TransformerEngine do,
// only the forward is fast. Both operands have the summed dimension last, so dx needs the columns
// of W, and dW the columns of g and x.
#pragma once

#include <ATen/core/Tensor.h>

#include "models/block/block.h"
#include "models/ops/matmul/matmul.h"

namespace packtrain {

// True if the products of a weight [out, in] can have 8-bit operands: whole 16-byte rows.
bool fp8_takes(std::int64_t out, std::int64_t in);

// The scale of a weight for both products, float32 [2]: Parameter::fp8_scale where it is defined.
// Otherwise it is new memory on the device of `x`, which the forward writes.
at::Tensor fp8_weight_scale(const Parameter& weight, const at::Tensor& x);

// The weight as the forward reads it, [N, K]: codes that it has, or cast ones. Then this writes
// `weight_scale`, that of fp8_weight_scale(), unless it is known.
Fp8Operand fp8_weight_rows(const Parameter& weight, const at::Tensor& weight_scale);
// The same transposed, [K, N], as the gradient of the input reads it. `weight_scale`: that of the
// forward.
Fp8Operand fp8_weight_columns(const Parameter& weight, const at::Tensor& weight_scale);

// x W^T + b + residual, in the dtype of `weight`. Decodes and casts the weight.
// `weight_scale` is that of fp8_weight_scale(). x [T, K]. `bias` may be null, `residual` undefined.
at::Tensor fp8_linear_forward(const Fp8Operand& x, const Parameter& weight,
                              const at::Tensor& weight_scale, const Parameter* bias,
                              const GemmTiming& timing, const at::Tensor& residual = {});
// g W + sum. grad_output [T, N]. `weight_scale` is that of the forward. `sum` may be undefined.
at::Tensor fp8_linear_backward_input(const Fp8Operand& grad_output, const Parameter& weight,
                                     const at::Tensor& weight_scale, const GemmTiming& timing,
                                     const at::Tensor& sum = {});
// Writes dW, or adds it. grad_columns [N, padded T] and x_columns [K, padded T].
void fp8_linear_backward_weight(const Fp8Operand& grad_columns, const Fp8Operand& x_columns,
                                const Parameter& weight, const GemmTiming& timing);

}  // namespace packtrain
