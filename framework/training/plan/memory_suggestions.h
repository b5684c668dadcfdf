// What would make a memory plan fit that does not: each way is planned, nothing is guessed.
#pragma once

#include <string>

#include "framework/config/config.h"
#include "framework/training/plan/memory_limit.h"
#include "framework/training/plan/memory_plan.h"
#include "models/decoder_config.h"

namespace packtrain {

// For people: the cheapest change of memory.recompute and optimizer.moments under which `load`
// stays within `limit`, the smallest larger parallel.shard_size that does, or where one group has
// all ranks already the number of ranks (doubled, up to 64 times), and the tokens that
// batch.max_tokens_per_micro_batch: auto would take as it is. Empty when the plan fits already, or
// nothing helps. `config` has the gather slots of the plan.
std::string memory_suggestions(const Config& config, const DecoderConfig& decoder,
                               const MemoryRanks& ranks, const MemoryLoad& load,
                               const MemoryLimit& limit);

}  // namespace packtrain
