// Steps of groups.
#pragma once

#include "samplers/batches/epoch_batches.h"
#include "samplers/group_units.h"

namespace packtrain {

// Replaces the groups of a step by the pieces of their examples. The step's pieces name groups as
// whole examples. Its packs stay; without packs each group becomes one.
StepPieces with_pieces_of_groups(const StepPieces& step, const GroupUnits& units);

}  // namespace packtrain
