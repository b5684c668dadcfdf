#include "models/ops/cuda/not_built.h"
#include "models/ops/rotary/rotary_cuda.h"

namespace packtrain {

at::Tensor rotary_cuda(const at::Tensor& /*qkv*/, std::int64_t /*num_rotated*/,
                       const at::Tensor& /*cos*/, const at::Tensor& /*sin*/, float /*direction*/) {
  throw_cuda_not_built("rotary");
}

}  // namespace packtrain
