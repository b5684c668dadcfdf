#include "samplers/strategies/balanced.h"

#include "samplers/strategies/placing.h"

namespace packtrain {

void check_balanced(const Selection&, const PlanOptions&) {}

Assignment assign_balanced(const StepPieces& step, const PlanOptions& options) {
  const std::int64_t max_tokens = options.max_tokens_per_micro_batch;
  const Groups packs = packs_of(step, max_tokens);
  const Placement placement =
      balance(items_of(packs, options), options.num_ranks, max_tokens, options.speeds);
  return assignment_of(packs, placement, options.num_ranks);
}

}  // namespace packtrain
