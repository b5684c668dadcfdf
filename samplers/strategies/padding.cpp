#include "samplers/strategies/padding.h"

#include <fmt/format.h>

#include <algorithm>

#include "framework/support/error.h"
#include "samplers/strategies/padding_free.h"

namespace packtrain {

void check_padding(const Selection& selection, const PlanOptions& options) {
  // A micro-batch never holds more than the step or the store does.
  const std::int64_t count = std::min(
      {options.micro_batch_size, options.global_batch_size, std::ssize(selection.examples())});
  const auto longest = std::ranges::max_element(
      selection.examples(), {}, [&](ExampleIndex example) { return selection.length(example); });
  const std::int64_t length = selection.length(*longest);
  if (count * length <= options.max_tokens_per_micro_batch) return;
  throw Error(
      ErrorCategory::kConfig,
      fmt::format("strategy padding may pad {} examples to the longest of all (example {} with {} "
                  "tokens): {} rows in one micro-batch, more than "
                  "batch.max_tokens_per_micro_batch = {}",
                  count, *longest, length, count * length, options.max_tokens_per_micro_batch),
      "Raise batch.max_tokens_per_micro_batch, lower batch.micro_batch_size, lower data.max_length "
      "with data.too_long: truncate or drop, or use batch.strategy: balanced, which needs no "
      "pads.");
}

Assignment assign_padding(std::span<const Piece> pieces, const PlanOptions& options) {
  return assign_padding_free(pieces, options);
}

}  // namespace packtrain
