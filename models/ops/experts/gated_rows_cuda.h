#pragma once

#include "models/ops/experts/gated_rows.h"

namespace packtrain {

// Whether this build and the current GPU have the kernels.
bool has_gated_rows_cuda();

// As gated_rows_forward and gated_rows_backward, of bfloat16 on CUDA, at least one row.
GatedRows gated_rows_forward_cuda(const at::Tensor& rows, const at::Tensor& weight,
                                  const at::Tensor& ends, const Activation& activation);
GatedRowGradients gated_rows_backward_cuda(const at::Tensor& grad, const at::Tensor& weight,
                                           const at::Tensor& x, const at::Tensor& ends,
                                           const Activation& activation);

}  // namespace packtrain
