// A share of a step, for gradients of a part of its examples.
#pragma once

#include "framework/core/random.h"
#include "samplers/batches/epoch_batches.h"
#include "samplers/loss_counter.h"
#include "samplers/plan.h"
#include "samplers/selection.h"

namespace packtrain {

// Chooses a share of the step's units (for_each_unit): the nearest whole number of them, at least
// one. Which ones depends on `random`, their first example and token, and on nothing of the ranks.
// The units stay in their order, and packs keep those of theirs that are chosen. Packs without any
// are left out. 0 < share <= 1. The counts of the result are not set.
StepPieces share_of(const StepPieces& step, double share, const CounterRandom& random);

// As step_counts() of these pieces. Of a store with groups, num_loss_tokens counts the labels that
// next-token training learns.
StepCounts share_counts(const Selection& selection, const LossCounter& counter,
                        const StepPieces& share);

}  // namespace packtrain
