// Products of few rows with a weight in NF4, for Hopper. The weight is decoded on its way to the
// tensor cores. So no decoded copy is written and read. no_hopper.cpp has the functions in a build
// without sm_90a.
//
// Decoded values have the bits of decode_weight(). Sums are float32 and rounded once. Each 128
// columns and 256 rows of the result decode the weight again. At 512 rows of an
// H100 that takes 0.76 to 0.98 of the time of decode_weight() and the library's product.
#pragma once

#include <ATen/core/Tensor.h>

#include "models/block/block.h"

namespace packtrain {

// True when this GPU has the kernel and it takes the operands. `left` is x [T, K] or g [T, N],
// bfloat16 on CUDA with 1 to 512 rows. The weight [N, K] is encoded. N is a multiple of 64 and K of
// 256. It has at most 8 ranges, each of whole rows. `bias` may be null, `addend` undefined; both
// are bfloat16.
bool nf4_gemm_takes(const at::Tensor& left, const Parameter& weight, const Parameter* bias,
                    const at::Tensor& addend);

// x W^T + bias + addend. `bias` may be null, `addend` undefined.
at::Tensor nf4_gemm_forward_cuda(const at::Tensor& x, const Parameter& weight,
                                 const Parameter* bias, const at::Tensor& addend);
// g W + addend.
at::Tensor nf4_gemm_backward_cuda(const at::Tensor& grad_output, const Parameter& weight,
                                  const at::Tensor& addend);

}  // namespace packtrain
