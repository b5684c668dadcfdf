// Packs: examples put together until they fill a fixed number of tokens, near the places that the
// epoch's order gives them (pack_window.h).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "samplers/batches/epoch_batches.h"

namespace packtrain {

// A step of multipack: packs_per_step * capacity <= global_batch_tokens, fewer tokens than packs
// apart, and capacity <= max_tokens_per_micro_batch. No rank is asked.
struct PackShape {
  std::int64_t packs_per_step = 1;
  std::int64_t capacity = 1;  // tokens
};

PackShape pack_shape(const PlanOptions& options);

// A step is the next packs_per_step packs; the epoch's last step has what is left, and the packs
// that close at the epoch's end may be less full. Whole examples, or the pieces of split ones, each
// where it fits. A piece leaves less than options.packing_window places from where the order has
// it; places are counted in pieces, those of an example one after the other.
// Memory: 4 bytes a piece, 8 more for each piece of an example but its first, and 4 bytes a pack.
// O(pieces). Throws Error(kData) for 2^32 pieces or more.
std::unique_ptr<EpochBatches> make_packs(BatchInputs inputs);

// Nothing: how many packs there are depends on the order.
std::optional<std::int64_t> pack_steps(const Selection& selection, const PlanOptions& options);

}  // namespace packtrain
