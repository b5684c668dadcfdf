#pragma once

#include "models/ops/linear_cross_entropy/cross_entropy.h"

namespace packtrain {

// cross_entropy() on CUDA tensors.
void cross_entropy_cuda(const at::Tensor& logits, const CrossEntropyTargets& targets,
                        bool gradients, const CrossEntropyOptions& options);

}  // namespace packtrain
