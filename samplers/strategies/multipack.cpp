#include "samplers/strategies/multipack.h"

#include <fmt/format.h>

#include <algorithm>

#include "framework/support/error.h"
#include "samplers/batches/packs.h"

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
                  "{}), but example {} has {} tokens",
                  capacity, packs_per_step, options.global_batch_tokens, budget, longest, length),
      fmt::format("Set batch.global_batch_tokens to {}, a multiple of "
                  "batch.max_tokens_per_micro_batch, or data.max_length to {} or less with "
                  "data.too_long: truncate, split or drop.",
                  packs_per_step * budget, capacity));
}

}  // namespace packtrain
