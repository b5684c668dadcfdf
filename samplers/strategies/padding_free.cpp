#include "samplers/strategies/padding_free.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "framework/support/error.h"
#include "samplers/strategies/strategy.h"

namespace packtrain {
namespace {

struct Longest {
  std::int64_t num_tokens = 0;
  ExampleIndex example = 0;
  std::int32_t length = 0;
};

// The longest `count` examples together, and the longest of them. Memory: `count` entries.
Longest longest_together(const Selection& selection, std::size_t count) {
  const auto longer = [&](ExampleIndex a, ExampleIndex b) {
    return selection.length(a) != selection.length(b) ? selection.length(a) > selection.length(b)
                                                      : a < b;
  };
  std::vector<ExampleIndex> longest(std::min(count, selection.examples().size()));
  std::ranges::partial_sort_copy(selection.examples(), longest, longer);
  Longest result{.example = longest.front(), .length = selection.length(longest.front())};
  for (const ExampleIndex example : longest) result.num_tokens += selection.length(example);
  return result;
}

}  // namespace

void check_padding_free(const Selection& selection, const PlanOptions& options) {
  // A micro-batch never holds more than the step does.
  const std::int64_t count = std::min(options.micro_batch_size, options.global_batch_size);
  const Longest longest = longest_together(selection, static_cast<std::size_t>(count));
  if (longest.num_tokens <= options.max_tokens_per_micro_batch) return;
  throw Error(
      ErrorCategory::kConfig,
      fmt::format("strategy padding_free may put the {} longest examples (example {} with {} "
                  "tokens and others) into one micro-batch: {} tokens, more than "
                  "batch.max_tokens_per_micro_batch = {}",
                  count, longest.example, longest.length, longest.num_tokens,
                  options.max_tokens_per_micro_batch),
      "Raise batch.max_tokens_per_micro_batch, lower batch.micro_batch_size, lower data.max_length "
      "with data.too_long: truncate or drop, or use batch.strategy: balanced, which fills "
      "micro-batches up to the budget.");
}

Assignment assign_padding_free(std::span<const Piece> pieces, const PlanOptions& options) {
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
