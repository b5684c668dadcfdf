#include "samplers/strategies/multipack.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "framework/core/error.h"
#include "samplers/batches/packs.h"
#include "samplers/strategies/placing.h"

namespace packtrain {

void check_multipack(const Selection& selection, const PlanOptions& options) {
  if (options.global_batch_tokens < 1) {
    throw Error(ErrorCategory::kConfig,
                "strategy multipack counts a step in tokens, got batch.global_batch_tokens = 0");
  }
  if (options.packing_window < 1) {
    throw Error(
        ErrorCategory::kConfig,
        fmt::format("batch.packing_window must be 1 or more, got {}", options.packing_window));
  }
  const auto [packs_per_step, capacity] = pack_shape(options);
  const ExampleIndex longest = *std::ranges::max_element(
      selection.examples(), {},
      [&](ExampleIndex example) { return selection.piece_length(example); });
  const std::int64_t length = selection.piece_length(longest);
  if (length <= capacity) return;
  const std::int64_t budget = options.max_tokens_per_micro_batch;
  throw Error(
      ErrorCategory::kConfig,
      fmt::format("strategy multipack makes packs of {} tokens ({} a step of "
                  "batch.global_batch_tokens = {}, none over batch.max_tokens_per_micro_batch = "
                  "{}), but {} has {} tokens",
                  capacity, packs_per_step, options.global_batch_tokens, budget,
                  selection.describe(longest), length),
      fmt::format("Set batch.global_batch_tokens to {}, a multiple of "
                  "batch.max_tokens_per_micro_batch, or data.max_length to {} or less with "
                  "data.too_long: {}.",
                  packs_per_step * budget, capacity, ways_to_shorten(selection)));
}

Assignment assign_multipack(const StepPieces& step, const PlanOptions& options) {
  const std::int64_t max_tokens = options.max_tokens_per_micro_batch;
  const Groups packs = packs_of(step, max_tokens);
  Placement placement =
      balance(items_of(packs, options), options.num_ranks, max_tokens, options.speeds);
  Groups units;
  std::vector<Placement::Slot> slots;
  for (std::size_t p = 0; p < packs.size(); ++p) {
    for_each_unit(packs[p], [&](std::span<const Piece> unit) {
      units.push_back(unit);
      slots.push_back(placement.slots[p]);
    });
  }
  placement.slots = std::move(slots);
  placement =
      trade(items_of(units, options), placement, options.num_ranks, max_tokens, options.speeds);
  return assignment_of(units, placement, options.num_ranks);
}

}  // namespace packtrain
