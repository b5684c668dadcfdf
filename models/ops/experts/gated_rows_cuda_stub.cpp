#include "models/ops/cuda/not_built.h"
#include "models/ops/experts/gated_rows_cuda.h"

namespace packtrain {

bool has_gated_rows_cuda() {
  return false;
}

GatedRows gated_rows_forward_cuda(const at::Tensor& /*rows*/, const at::Tensor& /*weight*/,
                                  const at::Tensor& /*ends*/, const Activation& /*activation*/) {
  throw_cuda_not_built("gated_rows_forward");
}

GatedRowGradients gated_rows_backward_cuda(const at::Tensor& /*grad*/, const at::Tensor& /*weight*/,
                                           const at::Tensor& /*x*/, const at::Tensor& /*ends*/,
                                           const Activation& /*activation*/) {
  throw_cuda_not_built("gated_rows_backward");
}

}  // namespace packtrain
