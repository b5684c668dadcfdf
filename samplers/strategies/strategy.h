// A strategy lays the examples of one optimizer step over ranks and micro-batches. It never chooses
// which examples those are: that is the order's part, so the loss does not depend on the strategy.
#pragma once

#include <span>

#include "samplers/options.h"
#include "samplers/plan.h"
#include "samplers/selection.h"

namespace packtrain {

struct StrategyEntry {
  Strategy strategy;
  // Throws Error(kConfig) when some step of some epoch might exceed the token budget. That every
  // single example fits has been checked before.
  void (*check)(const Selection& selection, const PlanOptions& options);
  // The step's `pieces`, in order, each exactly once. A pure function of its arguments.
  Assignment (*assign)(std::span<const Piece> pieces, const PlanOptions& options);
};

const StrategyEntry& find_strategy(Strategy strategy);

// `num_micro_batches` empty micro-batches for each rank.
Assignment empty_assignment(int num_ranks, std::int64_t num_micro_batches);

}  // namespace packtrain
