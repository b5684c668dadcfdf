#pragma once

#include "models/ops/matmul/matmul.h"

namespace packtrain {

// gemm_out of checked, non-empty tensors on CUDA.
void gemm_cuda(const at::Tensor& out, const at::Tensor& left, const at::Tensor& right,
               const GemmTerms& terms);

}  // namespace packtrain
