#include "samplers/strategies/placing.h"

#include <algorithm>

#include "samplers/strategies/strategy.h"

namespace packtrain {
namespace {

std::int64_t num_tokens(std::span<const Piece> pack) {
  std::int64_t sum = 0;
  for (const Piece& piece : pack) sum += piece.length;
  return sum;
}

}  // namespace

Groups packs_of(const StepPieces& step, std::int64_t max_tokens) {
  Groups packs;
  packs.reserve(step.num_packs());
  for (std::size_t p = 0; p < step.num_packs(); ++p) {
    const std::span<const Piece> pack = step.pack(p);
    if (num_tokens(pack) <= max_tokens) {
      packs.push_back(pack);
      continue;
    }
    for_each_unit(pack, [&](std::span<const Piece> unit) { packs.push_back(unit); });
  }
  return packs;
}

std::vector<BalanceItem> items_of(const Groups& groups, const PlanOptions& options) {
  std::vector<BalanceItem> items(groups.size());
  for (std::size_t g = 0; g < items.size(); ++g) {
    for_each_segment(groups[g], [&](std::span<const Piece>, const AttentionSegment& segment) {
      items[g].cost += options.cost.of_segment(segment);
      items[g].tokens += segment.rows.size();
    });
    items[g].tokens = std::min(items[g].tokens, options.max_tokens_per_micro_batch);
  }
  return items;
}

Assignment assignment_of(const Groups& groups, const Placement& placement, int num_ranks) {
  Assignment ranks = empty_assignment(num_ranks, placement.num_micro_batches);
  const auto num_micro_batches = static_cast<std::size_t>(placement.num_micro_batches);
  std::vector<std::size_t> sizes(ranks.size() * num_micro_batches);  // [rank][micro-batch] pieces
  for (std::size_t p = 0; p < placement.slots.size(); ++p) {
    const auto [rank, micro_batch] = placement.slots[p];
    sizes[static_cast<std::size_t>(rank) * num_micro_batches +
          static_cast<std::size_t>(micro_batch)] += groups[p].size();
  }
  auto size = sizes.begin();
  for (std::vector<MicroBatch>& rank : ranks) {
    for (MicroBatch& micro_batch : rank) micro_batch.reserve(*size++);
  }
  for (std::size_t p = 0; p < placement.slots.size(); ++p) {
    const auto [rank, micro_batch] = placement.slots[p];
    MicroBatch& pieces =
        ranks[static_cast<std::size_t>(rank)][static_cast<std::size_t>(micro_batch)];
    pieces.insert(pieces.end(), groups[p].begin(), groups[p].end());
  }
  return ranks;
}

}  // namespace packtrain
