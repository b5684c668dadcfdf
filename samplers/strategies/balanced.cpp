#include "samplers/strategies/balanced.h"

#include <span>
#include <vector>

#include "samplers/balance/balance.h"
#include "samplers/strategies/strategy.h"

namespace packtrain {

namespace {

Assignment assignment_of(const StepPieces& step, const Placement& placement, int num_ranks) {
  Assignment ranks = empty_assignment(num_ranks, placement.num_micro_batches);
  const auto num_micro_batches = static_cast<std::size_t>(placement.num_micro_batches);
  std::vector<std::size_t> sizes(ranks.size() * num_micro_batches);  // [rank][micro-batch], pieces
  for (std::size_t p = 0; p < placement.slots.size(); ++p) {
    const auto [rank, micro_batch] = placement.slots[p];
    sizes[static_cast<std::size_t>(rank) * num_micro_batches +
          static_cast<std::size_t>(micro_batch)] += step.pack(p).size();
  }
  auto size = sizes.begin();
  for (std::vector<MicroBatch>& rank : ranks) {
    for (MicroBatch& micro_batch : rank) micro_batch.reserve(*size++);
  }
  for (std::size_t p = 0; p < placement.slots.size(); ++p) {
    const auto [rank, micro_batch] = placement.slots[p];
    MicroBatch& pieces =
        ranks[static_cast<std::size_t>(rank)][static_cast<std::size_t>(micro_batch)];
    const std::span<const Piece> pack = step.pack(p);
    pieces.insert(pieces.end(), pack.begin(), pack.end());
  }
  return ranks;
}

}  // namespace

void check_balanced(const Selection&, const PlanOptions&) {}

Assignment assign_balanced(const StepPieces& step, const PlanOptions& options) {
  std::vector<BalanceItem> items(step.num_packs());
  for (std::size_t p = 0; p < items.size(); ++p) {
    for_each_sequence(step.pack(p), [&](std::span<const Piece>, std::int32_t num_tokens) {
      items[p].cost += options.cost.of_example(num_tokens);
      items[p].tokens += num_tokens;
    });
  }
  const Placement placement =
      balance(items, options.num_ranks, options.max_tokens_per_micro_batch, options.speeds);
  return assignment_of(step, placement, options.num_ranks);
}

}  // namespace packtrain
