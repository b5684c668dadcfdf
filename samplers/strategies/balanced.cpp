#include "samplers/strategies/balanced.h"

#include <vector>

#include "samplers/balance/balance.h"
#include "samplers/strategies/strategy.h"

namespace packtrain {

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
  Assignment ranks = empty_assignment(options.num_ranks, placement.num_micro_batches);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const Placement::Slot slot = placement.slots[i];
    ranks[static_cast<std::size_t>(slot.rank)][static_cast<std::size_t>(slot.micro_batch)]
        .push_back(pieces[i]);
  }
  return ranks;
}

}  // namespace packtrain
