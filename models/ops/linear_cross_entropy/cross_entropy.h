// Cross-entropy of rows of logits, without the projection before it (linear_cross_entropy.h has the
// formulas). Moves 2 N V elements. The part of a row that does not fit in shared memory (of two
// multiprocessors for very wide rows) is read twice, the second time mostly from L2.
#pragma once

#include "models/ops/linear_cross_entropy/linear_cross_entropy.h"

namespace packtrain {

// logits [N, V], with rows that start at multiples of 16 bytes. Fills targets.row_losses. With
// `gradients` it overwrites the logits by their gradient. Elements between the rows may be
// overwritten.
void cross_entropy(const at::Tensor& logits, const CrossEntropyTargets& targets, bool gradients,
                   const CrossEntropyOptions& options);

}  // namespace packtrain
