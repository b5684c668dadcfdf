#include "samplers/strategies/padding.h"

#include <fmt/format.h>

#include "framework/core/error.h"
#include "samplers/longest_pieces.h"
#include "samplers/strategies/padding_free.h"

namespace packtrain {

void check_padding(const Selection& selection, const PlanOptions& options) {
  const LongestPieces longest = longest_pieces(selection, options);
  const std::int64_t rows = longest.count * longest.longest;
  if (rows <= options.max_tokens_per_micro_batch) return;
  throw Error(
      ErrorCategory::kConfig,
      fmt::format("strategy padding may pad {} examples to the longest of all (example {} with {} "
                  "tokens): {} rows in one micro-batch, more than "
                  "batch.max_tokens_per_micro_batch = {}",
                  longest.count, longest.example, longest.longest, rows,
                  options.max_tokens_per_micro_batch),
      "Raise batch.max_tokens_per_micro_batch, lower batch.micro_batch_size, lower data.max_length "
      "with data.too_long: truncate, split or drop, or use batch.strategy: balanced, which needs "
      "no "
      "pads.");
}

Assignment assign_padding(const StepPieces& step, const PlanOptions& options) {
  return assign_chunks(step, options, /*pads=*/true);
}

}  // namespace packtrain
