// A strategy says how an epoch's order becomes optimizer steps, and how a step's pieces are laid
// over ranks and micro-batches. The first part knows no ranks, so that the loss does not depend on
// them; padding, padding_free and balanced share it, so that theirs does not depend on the
// strategy.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "samplers/batches/epoch_batches.h"
#include "samplers/options.h"
#include "samplers/plan.h"
#include "samplers/selection.h"

namespace packtrain {

struct StrategyEntry {
  Strategy strategy;
  // Throws Error(kConfig) when some step of some epoch might exceed the token budget. That every
  // single piece fits has been checked before.
  void (*check)(const Selection& selection, const PlanOptions& options);
  // The optimizer steps of an epoch. A pure function of its argument.
  std::unique_ptr<EpochBatches> (*make_batches)(BatchInputs inputs);
  // How many those are, of every epoch alike; nothing when epochs differ.
  std::optional<std::int64_t> (*steps_per_epoch)(const Selection& selection,
                                                 const PlanOptions& options);
  // The step's pieces, each exactly once, rows whole. A pure function of its arguments.
  Assignment (*assign)(const StepPieces& step, const PlanOptions& options);
};

const StrategyEntry& find_strategy(Strategy strategy);
// Whether its steps are packs or rows of its own, counted in tokens, and not, as those of all
// others, the examples of the order.
bool makes_own_steps(Strategy strategy);

// `num_micro_batches` empty micro-batches for each rank.
Assignment empty_assignment(int num_ranks, std::int64_t num_micro_batches);

}  // namespace packtrain
