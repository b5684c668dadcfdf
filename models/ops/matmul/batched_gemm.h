// GEMM (matmul.h) of each matrix of a batch:  out[i] = scale left[i] right[i] + addend[i]
#pragma once

#include <ATen/core/Tensor.h>

#include "models/ops/matmul/matmul.h"

namespace packtrain {

// left [count, M, K], right [count, K, N], out and addend [count, M, N], of one dtype, as in
// gemm_out(). No bias. One matrix takes gemm_out(), several libtorch's batched product.
void batched_gemm_out(const at::Tensor& out, const at::Tensor& left, const at::Tensor& right,
                      const GemmTerms& terms, const GemmTiming& timing);

}  // namespace packtrain
