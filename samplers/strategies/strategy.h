// A strategy defines how an epoch's order becomes optimizer steps, and how a step's pieces are
// assigned to ranks and micro-batches. The first part does not depend on ranks, so neither does the
// loss. padding, padding_free and balanced share it, so that their losses are equal.
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
  // Throws Error(kConfig) when some step of some epoch might exceed the token budget. The caller
  // has checked that every single piece fits.
  void (*check)(const Selection& selection, const PlanOptions& options);
  // The optimizer steps of an epoch. A pure function of its argument.
  std::unique_ptr<EpochBatches> (*make_batches)(BatchInputs inputs);
  // Their number, where every epoch has the same; nothing when epochs differ.
  std::optional<std::int64_t> (*steps_per_epoch)(const Selection& selection,
                                                 const PlanOptions& options);
  // Assigns the step's pieces, each exactly once, with rows as a whole. A pure function of its
  // arguments.
  Assignment (*assign)(const StepPieces& step, const PlanOptions& options);
};

const StrategyEntry& find_strategy(Strategy strategy);

// `num_micro_batches` empty micro-batches for each rank.
Assignment empty_assignment(int num_ranks, std::int64_t num_micro_batches);

}  // namespace packtrain
