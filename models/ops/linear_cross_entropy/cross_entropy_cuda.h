#pragma once

#include <ATen/core/Tensor.h>

namespace packtrain {

// Of logits [N, V] with labels int32 [N] and weights float32 [N], all on CUDA: returns the rows'
// unweighted losses, float32 [N]; with `gradients` turns the logits into d logits in place.
at::Tensor cross_entropy_cuda(const at::Tensor& logits, const at::Tensor& labels,
                              const at::Tensor& weights, bool gradients);

}  // namespace packtrain
