#include "models/ops/cuda/not_built.h"
#include "models/ops/swiglu/swiglu_cuda.h"

namespace packtrain {

at::Tensor swiglu_forward_cuda(const at::Tensor& /*gate_up*/) {
  throw_cuda_not_built("swiglu");
}

at::Tensor swiglu_backward_cuda(const at::Tensor& /*grad_output*/, const at::Tensor& /*gate_up*/) {
  throw_cuda_not_built("swiglu");
}

}  // namespace packtrain
