#include "models/ops/cuda/not_built.h"
#include "models/ops/qk_norm/qk_norm_cuda.h"

namespace packtrain {

QkNormOutput qk_norm_forward_cuda(const at::Tensor& /*qkv*/, const QkNorm& /*norm*/,
                                  const at::Tensor& /*position_ids*/,
                                  const at::Tensor& /*frequencies*/,
                                  const RotaryOptions& /*rotary*/) {
  throw_cuda_not_built("qk_norm");
}

at::Tensor qk_norm_backward_cuda(const at::Tensor& /*grad_query*/, const at::Tensor& /*grad_key*/,
                                 const at::Tensor& /*grad_value*/, const at::Tensor& /*qkv*/,
                                 const at::Tensor& /*inverse_rms*/, const QkNorm& /*norm*/,
                                 const at::Tensor& /*position_ids*/,
                                 const at::Tensor& /*frequencies*/,
                                 const RotaryOptions& /*rotary*/) {
  throw_cuda_not_built("qk_norm");
}

}  // namespace packtrain
