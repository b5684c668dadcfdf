#include "samplers/strategies/padding_free.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <vector>

#include "framework/core/error.h"
#include "samplers/group_units.h"
#include "samplers/longest_pieces.h"
#include "samplers/strategies/strategy.h"

namespace packtrain {
namespace {

using Chunks = std::vector<std::span<const Piece>>;

// Consecutive packs of a step: pieces or groups.
struct PackRange {
  std::size_t begin = 0;
  std::size_t end = 0;
};

// The first piece of a pack, or the end of the pieces.
std::size_t begin_of(const StepPieces& step, std::size_t pack) {
  if (step.pack_begins.empty()) return pack;
  return pack < step.pack_begins.size() ? step.pack_begins[pack] : step.pieces.size();
}

// Number of packs from the front, at least one, that fit a micro-batch of the budget.
std::size_t num_that_fit(const StepPieces& step, PackRange packs, std::int64_t max_tokens,
                         bool pads) {
  const std::size_t first = begin_of(step, packs.begin);
  std::int64_t num_tokens = 0;
  std::int64_t longest = 0;
  for (std::size_t p = packs.begin, next = first; p < packs.end; ++p) {
    for (const std::size_t end = begin_of(step, p + 1); next < end; ++next) {
      num_tokens += step.pieces[next].length;
      longest = std::max<std::int64_t>(longest, step.pieces[next].length);
    }
    const std::int64_t rows = pads ? longest * static_cast<std::int64_t>(next - first) : num_tokens;
    if (p > packs.begin && rows > max_tokens) return p - packs.begin;
  }
  return packs.end - packs.begin;
}

std::span<const Piece> pieces_of(const StepPieces& step, PackRange packs) {
  const std::size_t begin = begin_of(step, packs.begin);
  return std::span(step.pieces).subspan(begin, begin_of(step, packs.end) - begin);
}

// Makes chunks of `micro_batch_size` packs in their order. The budget may have been lowered since
// the check; chunks above it are cut.
Chunks chunks_of(const StepPieces& step, const PlanOptions& options, bool pads) {
  Chunks chunks;
  const auto size = static_cast<std::size_t>(options.micro_batch_size);
  const std::size_t num_packs = step.num_packs();
  for (std::size_t begin = 0; begin < num_packs; begin += size) {
    PackRange rest{begin, std::min(begin + size, num_packs)};
    while (rest.begin < rest.end) {
      const std::size_t count = num_that_fit(step, rest, options.max_tokens_per_micro_batch, pads);
      chunks.push_back(pieces_of(step, {rest.begin, rest.begin + count}));
      rest.begin += count;
    }
  }
  return chunks;
}

}  // namespace

void check_padding_free(const Selection& selection, const PlanOptions& options) {
  if (selection.units() != nullptr) selection.units()->find_prefixes();
  const LongestPieces longest = longest_pieces(selection, options);
  if (longest.num_tokens <= options.max_tokens_per_micro_batch) return;
  throw Error(
      ErrorCategory::kConfig,
      fmt::format("strategy padding_free may put the {} longest {}s ({} with {} tokens and others) "
                  "into one micro-batch: {} tokens, more than batch.max_tokens_per_micro_batch = "
                  "{}",
                  longest.count, selection.units() == nullptr ? "example" : "group",
                  selection.describe(longest.example), longest.longest, longest.num_tokens,
                  options.max_tokens_per_micro_batch),
      fmt::format("Raise batch.max_tokens_per_micro_batch, lower batch.micro_batch_size, lower "
                  "data.max_length with data.too_long: {}, or use batch.strategy: balanced, which "
                  "fills micro-batches up to the budget.",
                  ways_to_shorten(selection)));
}

Assignment assign_chunks(const StepPieces& step, const PlanOptions& options, bool pads) {
  const Chunks chunks = chunks_of(step, options, pads);
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
