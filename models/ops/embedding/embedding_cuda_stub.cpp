#include "models/ops/cuda/not_built.h"
#include "models/ops/embedding/embedding_cuda.h"

namespace packtrain {

at::Tensor embedding_forward_cuda(const at::Tensor& /*ids*/, const Parameter& /*weight*/) {
  throw_cuda_not_built("embedding");
}

void embedding_backward_cuda(const at::Tensor& /*grad_output*/, const at::Tensor& /*ids*/,
                             const Parameter& /*weight*/) {
  throw_cuda_not_built("embedding");
}

}  // namespace packtrain
