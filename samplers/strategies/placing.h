// From what stays together to an assignment: the way in and out of balance/ for strategies.
#pragma once

#include <span>
#include <vector>

#include "samplers/balance/balance.h"
#include "samplers/batches/epoch_batches.h"
#include "samplers/options.h"
#include "samplers/plan.h"

namespace packtrain {

// Each is what stays together: a pack, a piece, or pieces joined to one sequence.
using Groups = std::vector<std::span<const Piece>>;

// The step's packs, or pieces where there are none. A pack above the budget, which was lowered
// since it was made, comes apart into its sequences.
Groups packs_of(const StepPieces& step, std::int64_t max_tokens);

// Costs and tokens, as balance() takes them. A sequence above a lowered budget is given all of it,
// so that it fills a micro-batch of its own.
std::vector<BalanceItem> items_of(const Groups& groups, const PlanOptions& options);

// `groups` where `placement` has them, in their order inside a micro-batch.
Assignment assignment_of(const Groups& groups, const Placement& placement, int num_ranks);

}  // namespace packtrain
