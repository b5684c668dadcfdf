#include "samplers/strategies/balanced.h"

#include <algorithm>
#include <span>
#include <vector>

#include "samplers/balance/balance.h"
#include "samplers/strategies/strategy.h"

namespace packtrain {
namespace {

using Packs = std::vector<std::span<const Piece>>;

std::int64_t num_tokens(std::span<const Piece> pack) {
  std::int64_t sum = 0;
  for (const Piece& piece : pack) sum += piece.length;
  return sum;
}

// What stays together: the step's packs. A pack above the budget, which was lowered since it was
// made, comes apart into its sequences.
Packs packs_of(const StepPieces& step, std::int64_t max_tokens) {
  Packs packs;
  packs.reserve(step.num_packs());
  for (std::size_t p = 0; p < step.num_packs(); ++p) {
    const std::span<const Piece> pack = step.pack(p);
    if (num_tokens(pack) <= max_tokens) {
      packs.push_back(pack);
      continue;
    }
    for_each_sequence(
        pack, [&](std::span<const Piece> sequence, std::int32_t) { packs.push_back(sequence); });
  }
  return packs;
}

Assignment assignment_of(const Packs& packs, const Placement& placement, int num_ranks) {
  Assignment ranks = empty_assignment(num_ranks, placement.num_micro_batches);
  const auto num_micro_batches = static_cast<std::size_t>(placement.num_micro_batches);
  std::vector<std::size_t> sizes(ranks.size() * num_micro_batches);  // [rank][micro-batch], pieces
  for (std::size_t p = 0; p < placement.slots.size(); ++p) {
    const auto [rank, micro_batch] = placement.slots[p];
    sizes[static_cast<std::size_t>(rank) * num_micro_batches +
          static_cast<std::size_t>(micro_batch)] += packs[p].size();
  }
  auto size = sizes.begin();
  for (std::vector<MicroBatch>& rank : ranks) {
    for (MicroBatch& micro_batch : rank) micro_batch.reserve(*size++);
  }
  for (std::size_t p = 0; p < placement.slots.size(); ++p) {
    const auto [rank, micro_batch] = placement.slots[p];
    MicroBatch& pieces =
        ranks[static_cast<std::size_t>(rank)][static_cast<std::size_t>(micro_batch)];
    pieces.insert(pieces.end(), packs[p].begin(), packs[p].end());
  }
  return ranks;
}

}  // namespace

void check_balanced(const Selection&, const PlanOptions&) {}

Assignment assign_balanced(const StepPieces& step, const PlanOptions& options) {
  const std::int64_t max_tokens = options.max_tokens_per_micro_batch;
  const Packs packs = packs_of(step, max_tokens);
  std::vector<BalanceItem> items(packs.size());
  for (std::size_t p = 0; p < items.size(); ++p) {
    for_each_sequence(packs[p], [&](std::span<const Piece>, std::int32_t length) {
      items[p].cost += options.cost.of_example(length);
      items[p].tokens += length;
    });
    // A sequence above a lowered budget fills a micro-batch of its own.
    items[p].tokens = std::min(items[p].tokens, max_tokens);
  }
  const Placement placement = balance(items, options.num_ranks, max_tokens, options.speeds);
  return assignment_of(packs, placement, options.num_ranks);
}

}  // namespace packtrain
