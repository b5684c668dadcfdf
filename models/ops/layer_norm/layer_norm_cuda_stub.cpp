#include "models/ops/cuda/not_built.h"
#include "models/ops/layer_norm/layer_norm_cuda.h"

namespace packtrain {

LayerNormOutput layer_norm_forward_cuda(const at::Tensor& /*x*/, const Parameter& /*weight*/,
                                        const Parameter* /*bias*/,
                                        const LayerNormOptions& /*options*/,
                                        const at::Tensor& /*residual*/) {
  throw_cuda_not_built("layer_norm");
}

at::Tensor layer_norm_backward_cuda(const at::Tensor& /*grad_output*/, const at::Tensor& /*x*/,
                                    const at::Tensor& /*mean*/,
                                    const at::Tensor& /*inverse_deviation*/,
                                    const Parameter& /*weight*/, const Parameter* /*bias*/,
                                    const at::Tensor& /*grad_residual*/,
                                    const at::Tensor& /*recomputed_output*/) {
  throw_cuda_not_built("layer_norm");
}

}  // namespace packtrain
