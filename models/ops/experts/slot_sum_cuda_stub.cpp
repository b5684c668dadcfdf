#include "models/ops/cuda/not_built.h"
#include "models/ops/experts/slot_sum_cuda.h"

namespace packtrain {

at::Tensor slot_sum_cuda(const at::Tensor& /*values*/, const at::Tensor& /*places*/,
                         const at::Tensor& /*weights*/, const at::Tensor& /*addend*/) {
  throw_cuda_not_built("slot_sum");
}

}  // namespace packtrain
