// fixed_length: the examples of an epoch run together and cut into rows of data.max_length tokens;
// the offline mode of arXiv 2407.09105. Full rows whatever the lengths, at the price of cut
// examples, and of steps that hold other examples than those of the strategies that keep them
// whole. The rows of a step are laid over ranks and micro-batches as balanced lays examples.
#pragma once

#include "samplers/options.h"
#include "samplers/selection.h"

namespace packtrain {

// Throws Error(kConfig) when a row exceeds the token budget or a step is no whole number of rows.
void check_fixed_length(const Selection& selection, const PlanOptions& options);

}  // namespace packtrain
