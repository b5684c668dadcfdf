// Rows: the epoch's examples as one stream of tokens, cut every data.max_length of them, wherever
// that falls; "offline" packing in arXiv 2407.09105, "wrapped" in other trainers.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "samplers/batches/epoch_batches.h"

namespace packtrain {

// A step is global_batch_tokens / max_length rows (it divides: the strategy's check), each a pack;
// the epoch's last step has what is left, its last row perhaps fewer tokens. A piece that is cut
// off `continues`, so that no label is lost. With cross_example_attention the pieces of a row are
// joined to one sequence; else each is a sequence of its own, that of a cut example, too.
// Memory: the order, and 8 bytes a step. A step takes O(its pieces).
std::unique_ptr<EpochBatches> make_rows(BatchInputs inputs);

// The number of steps, which no order changes. O(examples).
std::optional<std::int64_t> row_steps(const Selection& selection, const PlanOptions& options);

}  // namespace packtrain
