// Replaces the kernels of Hopper in a build without sm_90a.
#include "models/ops/cuda/not_built.h"
#include "models/ops/experts/grouped_glu_gemm.h"
#include "models/ops/experts/grouped_wgrad_cuda.h"

namespace packtrain {

bool has_grouped_glu_gemm_cuda() {
  return false;
}

GroupedGluGemm grouped_glu_gemm_forward_cuda(const at::Tensor& /*rows*/,
                                             const at::Tensor& /*weight*/,
                                             const at::Tensor& /*ends*/,
                                             const Activation& /*activation*/) {
  throw_cuda_not_built("grouped_glu_gemm_forward");
}

GroupedGluGemmGradients grouped_glu_gemm_backward_cuda(const at::Tensor& /*grad*/,
                                                       const at::Tensor& /*weight*/,
                                                       const at::Tensor& /*x*/,
                                                       const at::Tensor& /*ends*/,
                                                       const Activation& /*activation*/) {
  throw_cuda_not_built("grouped_glu_gemm_backward");
}

bool has_grouped_wgrad_cuda() {
  return false;
}

void grouped_weight_gradient_cuda(const Parameter& /*weight*/, const at::Tensor& /*left*/,
                                  const at::Tensor& /*right*/, const at::Tensor& /*ends*/) {
  throw_cuda_not_built("grouped_weight_gradient");
}

}  // namespace packtrain
