#include "models/ops/cuda/not_built.h"
#include "models/ops/rms_norm/rms_norm_cuda.h"

namespace packtrain {

RmsNormOutput rms_norm_forward_cuda(const at::Tensor& /*x*/, const Parameter& /*weight*/,
                                    const RmsNormOptions& /*options*/,
                                    const at::Tensor& /*residual*/) {
  throw_cuda_not_built("rms_norm");
}

at::Tensor rms_norm_backward_cuda(const at::Tensor& /*grad_output*/, const at::Tensor& /*x*/,
                                  const at::Tensor& /*inverse_rms*/, const Parameter& /*weight*/,
                                  const RmsNormOptions& /*options*/,
                                  const at::Tensor& /*grad_residual*/,
                                  const at::Tensor& /*recomputed_output*/) {
  throw_cuda_not_built("rms_norm");
}

at::Tensor rms_norm_forward_into_cuda(const at::Tensor& /*y*/, const at::Tensor& /*x*/,
                                      const Parameter& /*weight*/,
                                      const RmsNormOptions& /*options*/) {
  throw_cuda_not_built("rms_norm");
}

void rms_norm_backward_cuda_(const at::Tensor& /*grad*/, const at::Tensor& /*x*/,
                             const at::Tensor& /*inverse_rms*/, const Parameter& /*weight*/,
                             const RmsNormOptions& /*options*/) {
  throw_cuda_not_built("rms_norm");
}

}  // namespace packtrain
