// Initial values of an adapter that are computed from the weights under it: PiSSA and LoftQ, and
// the magnitudes of DoRA.
#pragma once

#include <cstdint>
#include <vector>

#include "parallel/communicators/communicator.h"
#include "parallel/sharding/shard_view.h"
#include "parallel/sharding/sharded_model.h"
#include "training/setup/model_source.h"

namespace packtrain {

// Collective over `control`, which has all ranks of the model. The model has its weights, and the
// default values of its adapters. Those that begin from the weights get the values of
// LoraInitialization, and with PiSSA the weights become residuals. Magnitudes become the norms of
// the weights' rows, as products read them. Each weight is computed by one rank, which reads it
// whole, and has the same values on all ranks. Returns this rank's parts of
// the initial values with PiSSA (copy_initial_values()), if it saves checkpoints, else nothing.
// An Error of one rank is thrown on every rank. Throws Error(kConfig) for LoftQ when the source's
// weights are in NF4 already.
std::vector<ShardView> initialize_from_base(const ModelSource& source, std::uint64_t seed,
                                            ShardedModel& model, Communicator& control);

}  // namespace packtrain
