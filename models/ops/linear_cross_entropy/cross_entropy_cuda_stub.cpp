#include "models/ops/cuda/not_built.h"
#include "models/ops/linear_cross_entropy/cross_entropy_cuda.h"

namespace packtrain {

void cross_entropy_cuda(const at::Tensor& /*logits*/, const CrossEntropyTargets& /*targets*/,
                        bool /*gradients*/, const CrossEntropyOptions& /*options*/) {
  throw_cuda_not_built("cross_entropy");
}

}  // namespace packtrain
