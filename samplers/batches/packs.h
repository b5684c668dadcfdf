// Packs: examples that together fill a fixed number of tokens, near their positions in the epoch's
// order (pack_window.h).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "samplers/batches/epoch_batches.h"

namespace packtrain {

// A step of multipack: packs_per_step * capacity <= global_batch_tokens, with a rest of fewer
// tokens than packs, and capacity <= max_tokens_per_micro_batch. It does not depend on ranks.
struct PackShape {
  std::int64_t packs_per_step = 1;
  std::int64_t capacity = 1;  // tokens
};

PackShape pack_shape(const PlanOptions& options);

// A step is the next packs_per_step packs. The epoch's last step has the remaining packs; packs
// that close at the epoch's end may be less full. Packs hold whole examples or pieces of split
// ones. A piece moves less than options.packing_window positions from its position in the order.
// Positions count pieces; those of an example are consecutive. Memory: 4 bytes a piece, 8 more for
// each piece of an example after its first, and 4 bytes a pack. O(pieces). Throws Error(kData) for
// 2^32 pieces or more.
std::unique_ptr<EpochBatches> make_packs(BatchInputs inputs);

// Returns nothing, because the number of packs depends on the order.
std::optional<std::int64_t> pack_steps(const Selection& selection, const PlanOptions& options);

}  // namespace packtrain
