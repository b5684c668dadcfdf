#include "samplers/strategies/padding_free.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <vector>

#include "framework/core/error.h"
#include "samplers/longest_pieces.h"
#include "samplers/strategies/strategy.h"

namespace packtrain {
namespace {

using Chunks = std::vector<std::span<const Piece>>;

// Number of pieces from the front, at least one, that fit a micro-batch of the budget.
std::size_t num_that_fit(std::span<const Piece> pieces, std::int64_t max_tokens, bool pads) {
  std::int64_t num_tokens = 0;
  std::int64_t longest = 0;
  for (std::size_t p = 0; p < pieces.size(); ++p) {
    num_tokens += pieces[p].length;
    longest = std::max<std::int64_t>(longest, pieces[p].length);
    const std::int64_t rows = pads ? longest * static_cast<std::int64_t>(p + 1) : num_tokens;
    if (p > 0 && rows > max_tokens) return p;
  }
  return pieces.size();
}

// Makes chunks of `micro_batch_size` pieces in their order. The budget may have been lowered since
// the check; chunks above it are cut.
Chunks chunks_of(std::span<const Piece> pieces, const PlanOptions& options, bool pads) {
  Chunks chunks;
  const auto size = static_cast<std::size_t>(options.micro_batch_size);
  for (std::size_t begin = 0; begin < pieces.size(); begin += size) {
    auto rest = pieces.subspan(begin, std::min(size, pieces.size() - begin));
    while (!rest.empty()) {
      const std::size_t count = num_that_fit(rest, options.max_tokens_per_micro_batch, pads);
      chunks.push_back(rest.first(count));
      rest = rest.subspan(count);
    }
  }
  return chunks;
}

}  // namespace

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

Assignment assign_chunks(const StepPieces& step, const PlanOptions& options, bool pads) {
  const Chunks chunks = chunks_of(step.pieces, options, pads);
  const auto num_ranks = static_cast<std::size_t>(options.num_ranks);
  Assignment ranks = empty_assignment(
      options.num_ranks, static_cast<std::int64_t>((chunks.size() + num_ranks - 1) / num_ranks));
  for (std::size_t chunk = 0; chunk < chunks.size(); ++chunk) {
    ranks[chunk % num_ranks][chunk / num_ranks].assign(chunks[chunk].begin(), chunks[chunk].end());
  }
  return ranks;
}

Assignment assign_padding_free(const StepPieces& step, const PlanOptions& options) {
  return assign_chunks(step, options, /*pads=*/false);
}

}  // namespace packtrain
