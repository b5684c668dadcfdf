// Cross-entropy of rows of logits, without the projection before it (linear_cross_entropy.h has the
// formulas). Moves 2 N V elements. The part of a row that does not fit in shared memory is read
// twice, the second time mostly from L2. Very wide rows use the shared memory of two
// multiprocessors.
#pragma once

#include "models/ops/linear_cross_entropy/linear_cross_entropy.h"

namespace packtrain {

// The logits are [N, V], and rows start at multiples of 16 bytes. Fills targets.row_losses. If
// `gradients` is set it overwrites the logits by their gradient. Elements between the rows may be
// overwritten.
void cross_entropy(const at::Tensor& logits, const CrossEntropyTargets& targets, bool gradients,
                   const CrossEntropyOptions& options);

// On CUDA tensors. The functions above call these; no_cuda.cpp has them in a build without CUDA.
void cross_entropy_cuda(const at::Tensor& logits, const CrossEntropyTargets& targets,
                        bool gradients, const CrossEntropyOptions& options);

}  // namespace packtrain
