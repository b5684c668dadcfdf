#include "samplers/strategies/padding_free.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <vector>

#include "framework/support/error.h"
#include "samplers/longest_pieces.h"
#include "samplers/strategies/strategy.h"

namespace packtrain {
void check_padding_free(const Selection& selection, const PlanOptions& options) {
  const LongestPieces longest = longest_pieces(selection, options);
  if (longest.num_tokens <= options.max_tokens_per_micro_batch) return;
  throw Error(
      ErrorCategory::kConfig,
      fmt::format("strategy padding_free may put the {} longest examples (example {} with {} "
                  "tokens and others) into one micro-batch: {} tokens, more than "
                  "batch.max_tokens_per_micro_batch = {}",
                  longest.count, longest.example, longest.longest, longest.num_tokens,
                  options.max_tokens_per_micro_batch),
      "Raise batch.max_tokens_per_micro_batch, lower batch.micro_batch_size, lower data.max_length "
      "with data.too_long: truncate, split or drop, or use batch.strategy: balanced, which fills "
      "micro-batches up to the budget.");
}

Assignment assign_padding_free(const StepPieces& step, const PlanOptions& options) {
  const std::span<const Piece> pieces = step.pieces;
  const auto size = static_cast<std::size_t>(options.micro_batch_size);
  const auto num_ranks = static_cast<std::size_t>(options.num_ranks);
  const std::size_t num_chunks = (pieces.size() + size - 1) / size;
  Assignment ranks = empty_assignment(
      options.num_ranks, static_cast<std::int64_t>((num_chunks + num_ranks - 1) / num_ranks));
  for (std::size_t chunk = 0; chunk < num_chunks; ++chunk) {
    const auto part = pieces.subspan(chunk * size, std::min(size, pieces.size() - chunk * size));
    ranks[chunk % num_ranks][chunk / num_ranks].assign(part.begin(), part.end());
  }
  return ranks;
}

}  // namespace packtrain
