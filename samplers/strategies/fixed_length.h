// fixed_length: concatenates the examples of an epoch and cuts them into rows of data.max_length
// tokens; the offline mode of arXiv 2407.09105. Rows are full for any lengths, but examples are
// cut, and steps hold other examples than those of strategies that keep examples whole. The rows of
// a step are assigned to ranks and micro-batches as in balanced.
#pragma once

#include "samplers/options.h"
#include "samplers/selection.h"

namespace packtrain {

// Throws Error(kConfig) when a row exceeds the token budget or a step is no whole number of rows.
void check_fixed_length(const Selection& selection, const PlanOptions& options);

}  // namespace packtrain
