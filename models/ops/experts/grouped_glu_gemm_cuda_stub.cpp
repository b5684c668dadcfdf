#include "models/ops/cuda/not_built.h"
#include "models/ops/experts/grouped_glu_gemm_cuda.h"

namespace packtrain {

bool has_grouped_glu_gemm_cuda() {
  return false;
}

GroupedGluGemm grouped_glu_gemm_forward_cuda(const at::Tensor& /*rows*/,
                                             const at::Tensor& /*weight*/,
                                             const at::Tensor& /*ends*/,
                                             const Activation& /*activation*/) {
  throw_cuda_not_built("gated_rows_forward");
}

GroupedGluGemmGradients grouped_glu_gemm_backward_cuda(const at::Tensor& /*grad*/,
                                                       const at::Tensor& /*weight*/,
                                                       const at::Tensor& /*x*/,
                                                       const at::Tensor& /*ends*/,
                                                       const Activation& /*activation*/) {
  throw_cuda_not_built("gated_rows_backward");
}

}  // namespace packtrain
