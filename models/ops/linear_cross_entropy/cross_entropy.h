// The cross-entropy of rows of logits, without the product before it (linear_cross_entropy.h has
// the formulas). 2 N V elements moved; what of a row does not fit in a multiprocessor's shared
// memory (of two, for rows far wider than one's) is read twice, the second time mostly from the
// second-level cache.
#pragma once

#include "models/ops/linear_cross_entropy/linear_cross_entropy.h"

namespace packtrain {

// Of logits [N, V] (rows start at multiples of 16 bytes): fills targets.row_losses, and with
// `gradients` turns the logits into their gradient, in place. What lies between the rows may be
// overwritten.
void cross_entropy(const at::Tensor& logits, const CrossEntropyTargets& targets, bool gradients,
                   const CrossEntropyOptions& options);

}  // namespace packtrain
