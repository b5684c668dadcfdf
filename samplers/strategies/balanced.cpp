#include "samplers/strategies/balanced.h"

#include <span>
#include <vector>

#include "samplers/balance/balance.h"
#include "samplers/strategies/strategy.h"

namespace packtrain {

namespace {

Assignment assignment_of(std::span<const Piece> pieces, const Placement& placement, int num_ranks) {
  Assignment ranks = empty_assignment(num_ranks, placement.num_micro_batches);
  const auto num_micro_batches = static_cast<std::size_t>(placement.num_micro_batches);
  std::vector<std::size_t> sizes(ranks.size() * num_micro_batches);  // [rank][micro-batch]
  for (const auto [rank, micro_batch] : placement.slots) {
    ++sizes[static_cast<std::size_t>(rank) * num_micro_batches +
            static_cast<std::size_t>(micro_batch)];
  }
  auto size = sizes.begin();
  for (std::vector<MicroBatch>& rank : ranks) {
    for (MicroBatch& micro_batch : rank) micro_batch.reserve(*size++);
  }
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const auto [rank, micro_batch] = placement.slots[i];
    ranks[static_cast<std::size_t>(rank)][static_cast<std::size_t>(micro_batch)].push_back(
        pieces[i]);
  }
  return ranks;
}

}  // namespace

void check_balanced(const Selection&, const PlanOptions&) {}

Assignment assign_balanced(const StepPieces& step, const PlanOptions& options) {
  const std::vector<Piece>& pieces = step.pieces;
  std::vector<BalanceItem> items;
  items.reserve(pieces.size());
  for (const Piece& piece : pieces) {
    items.push_back({options.cost.of_example(piece.length), piece.length});
  }
  const Placement placement =
      balance(items, options.num_ranks, options.max_tokens_per_micro_batch, options.speeds);
  return assignment_of(pieces, placement, options.num_ranks);
}

}  // namespace packtrain
