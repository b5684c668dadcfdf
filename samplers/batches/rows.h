// Rows: the epoch's examples as one stream of tokens, cut after every data.max_length tokens.
// Called "offline" packing in arXiv 2407.09105 and "wrapped" in other trainers.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "samplers/batches/epoch_batches.h"

namespace packtrain {

// A step is global_batch_tokens / max_length rows, each of them a pack. The strategy checks that it
// divides. The epoch's last step has the remaining rows; its last row may have fewer tokens. A
// piece that is cut `continues`, so that no label is lost. With cross_example_attention the pieces
// of a row are joined to one sequence. Without it each piece is a sequence of its own, also that of
// a cut example. Memory: the order, and 8 bytes a step. A step takes O(its pieces).
std::unique_ptr<EpochBatches> make_rows(BatchInputs inputs);

// The number of steps, which no order changes. O(examples).
std::optional<std::int64_t> row_steps(const Selection& selection, const PlanOptions& options);

}  // namespace packtrain
