#pragma once

#include "models/ops/gradient_norm/gradient_norm.h"

namespace packtrain {

// The functions of gradient_norm.h on a GPU. All throw Error(kDevice) in a build without CUDA.
at::Tensor squared_norm_partials_cuda(const at::Tensor& values);
at::Tensor step_sums_cuda(const at::Tensor& partials, const at::Tensor& loss,
                          const RequestFlags& requests, const at::Tensor& details);
StepScalars step_scalars_cuda(const at::Tensor& sums, double max_norm, const RefusalBounds& bounds);

}  // namespace packtrain
