#include "models/ops/cuda/not_built.h"
#include "models/ops/experts/grouped_wgrad_cuda.h"

namespace packtrain {

bool has_grouped_wgrad_cuda() {
  return false;
}

void grouped_weight_gradient_cuda(const Parameter& /*weight*/, const at::Tensor& /*left*/,
                                  const at::Tensor& /*right*/, const at::Tensor& /*ends*/) {
  throw_cuda_not_built("grouped_weight_gradient");
}

}  // namespace packtrain
