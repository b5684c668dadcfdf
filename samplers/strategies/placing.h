// Converts between strategies and balance/: packs or pieces to items, and placements to
// assignments.
#pragma once

#include <span>
#include <vector>

#include "samplers/balance/balance.h"
#include "samplers/batches/epoch_batches.h"
#include "samplers/options.h"
#include "samplers/plan.h"

namespace packtrain {

// Each is placed as a whole: a pack, a piece, pieces joined to one sequence, or a store's group.
using Groups = std::vector<std::span<const Piece>>;

// The step's packs, or pieces where there are no packs. The budget may have been lowered since
// packs were made; a pack above it is divided into its sequences, or its groups.
Groups packs_of(const StepPieces& step, std::int64_t max_tokens);

// Costs and tokens of the groups, for balance(). A sequence above a lowered budget counts as the
// whole budget, so that it fills a micro-batch of its own.
std::vector<BalanceItem> items_of(const Groups& groups, const PlanOptions& options);

// The `groups` at their slots in `placement`, in their order inside a micro-batch.
Assignment assignment_of(const Groups& groups, const Placement& placement, int num_ranks);

}  // namespace packtrain
