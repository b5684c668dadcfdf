#include "models/ops/cuda/not_built.h"
#include "models/ops/linear/bias_gradient_cuda.h"

namespace packtrain {

void bias_gradient_cuda(const at::Tensor& /*grad_output*/, const Parameter& /*bias*/) {
  throw_cuda_not_built("linear");
}

}  // namespace packtrain
