#include "models/ops/activation/activation_cuda.h"
#include "models/ops/cuda/not_built.h"

namespace packtrain {

at::Tensor activation_forward_cuda(const at::Tensor& /*x*/, const Activation& /*activation*/) {
  throw_cuda_not_built("activation");
}

at::Tensor activation_backward_cuda(const at::Tensor& /*grad_output*/, const at::Tensor& /*x*/,
                                    const Activation& /*activation*/,
                                    const at::Tensor& /*recomputed_output*/) {
  throw_cuda_not_built("activation");
}

}  // namespace packtrain
