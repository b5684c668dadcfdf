#include "models/ops/cuda/not_built.h"
#include "models/ops/experts/permute_cuda.h"

namespace packtrain {

at::Tensor unpermute_sum_cuda(const at::Tensor& /*values*/, const at::Tensor& /*places*/,
                              const at::Tensor& /*weights*/, const at::Tensor& /*addend*/) {
  throw_cuda_not_built("slot_sum");
}

at::Tensor permute_rows_cuda(const at::Tensor& /*rows*/, const at::Tensor& /*places*/,
                             const at::Tensor& /*weights*/) {
  throw_cuda_not_built("slot_spread");
}

at::Tensor grad_routing_weight_cuda(const at::Tensor& /*a*/, const at::Tensor& /*b*/,
                                    const at::Tensor& /*places*/, const at::Tensor& /*divisors*/) {
  throw_cuda_not_built("slot_dot");
}

}  // namespace packtrain
