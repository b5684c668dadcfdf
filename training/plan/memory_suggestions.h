// Changes that make a memory plan fit. Each one is planned, none is guessed.
#pragma once

#include <string>

#include "framework/config/config.h"
#include "models/layers/decoder_config.h"
#include "training/plan/memory_limit.h"
#include "training/plan/memory_plan.h"

namespace packtrain {

// For people. Suggests the cheapest change of memory.recompute, optimizer.moments and
// precision.master under which `load` stays within `limit`. Also memory.offload of the optimizer's
// state where that is enough, and the smallest larger parallel.shard_size that does. When one
// group has all ranks, it suggests a number of ranks instead (doubled, up to 64 times). Also the
// tokens that batch.max_tokens_per_micro_batch: auto would use without a change. Empty when the
// plan fits or nothing helps. `config` has the gather slots of the plan.
std::string memory_suggestions(const Config& config, const DecoderConfig& decoder,
                               const MemoryRanks& ranks, const MemoryLoad& load,
                               const MemoryLimit& limit);

}  // namespace packtrain
