#include "models/ops/cuda/not_built.h"
#include "models/ops/rotary/rotary_cuda.h"

namespace packtrain {

void rotary_forward_cuda_(const at::Tensor& /*qkv*/, const at::Tensor& /*position_ids*/,
                          const at::Tensor& /*frequencies*/, const RotaryOptions& /*options*/) {
  throw_cuda_not_built("rotary");
}

at::Tensor rotary_backward_cuda(const at::Tensor& /*grad_query*/, const at::Tensor& /*grad_key*/,
                                const at::Tensor& /*grad_value*/,
                                const at::Tensor& /*position_ids*/,
                                const at::Tensor& /*frequencies*/,
                                const RotaryOptions& /*options*/) {
  throw_cuda_not_built("rotary");
}

}  // namespace packtrain
