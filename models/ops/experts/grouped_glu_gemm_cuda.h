#pragma once

#include "models/ops/experts/grouped_glu_gemm.h"

namespace packtrain {

// True when this build and the current GPU have the kernels.
bool has_grouped_glu_gemm_cuda();

// The functions of grouped_glu_gemm.h for bfloat16 on CUDA with at least one row.
GroupedGluGemm grouped_glu_gemm_forward_cuda(const at::Tensor& rows, const at::Tensor& weight,
                                             const at::Tensor& ends, const Activation& activation);
GroupedGluGemmGradients grouped_glu_gemm_backward_cuda(const at::Tensor& grad,
                                                       const at::Tensor& weight,
                                                       const at::Tensor& x, const at::Tensor& ends,
                                                       const Activation& activation);

}  // namespace packtrain
