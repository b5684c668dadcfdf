// The products of a linear layer (ops/linear/linear.h) with 8-bit operands that have a scale for
// each 128 numbers (fp8_block.h). Sums are float32, partial sums of 128 numbers are added there.
//    y = x W^T + b + r     x 1 x 128, W 128 x 128
//    dx = g W + s          g 1 x 128, W 128 x 128
// fp8_linear_backward_weight() takes columns of groups as well: dW = g^T x, both 128 x 1.
#pragma once

#include <ATen/core/Tensor.h>

#include "models/block/block.h"
#include "models/ops/matmul/matmul.h"

namespace packtrain {

// x W^T + b + residual, in the dtype of `weight`, [num_rows, N]. Decodes (ops/nf4) and casts the
// weight. x has the rows of an Fp8Groups of num_rows. `bias` may be null, `residual` undefined.
at::Tensor fp8_block_linear_forward(const Fp8Operand& x, std::int64_t num_rows,
                                    const Parameter& weight, const Parameter* bias,
                                    const GemmTiming& timing, const at::Tensor& residual = {});
// g W + sum, [num_rows, K]. `sum` may be undefined.
at::Tensor fp8_block_linear_backward_input(const Fp8Operand& grad_output, std::int64_t num_rows,
                                           const Parameter& weight, const GemmTiming& timing,
                                           const at::Tensor& sum = {});

}  // namespace packtrain
