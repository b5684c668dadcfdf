// Resolves batch.max_tokens_per_micro_batch: the given budget, or with `auto` as much as memory
// holds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "framework/config/config.h"
#include "framework/device/device.h"
#include "models/layers/decoder_config.h"
#include "parallel/communicators/world.h"
#include "training/plan/memory_limit.h"
#include "training/plan/memory_plan.h"

namespace packtrain {

struct TokenBudget {
  std::int64_t tokens = 0;           // real tokens and pads of one rank's micro-batch
  std::optional<MemoryLimit> limit;  // the budget was found within it; nothing: it was given
};

// The largest multiple of the collator's row multiple whose memory plan stays within the limit. It
// is at most what the largest optimizer step can use; with packs that is a rank's share, so that
// every rank gets a pack. It is also at most what 32-bit row numbers allow.
// Throws Error(kConfig) with the plan when data.max_length tokens do not fit.
std::int64_t largest_token_budget(const Config& config, const DecoderConfig& decoder,
                                  const MemoryRanks& ranks, const MemoryLimit& limit);

// The configured budget, or the one for the rank with the least free memory. Collective. Must run
// before the run allocates anything on the device. parallel.shard_size: the result of
// choose_shard_size().
TokenBudget token_budget(const Config& config, const DecoderConfig& decoder, const Device& device,
                         World& world);
// The same for an assumed device, without ranks.
TokenBudget assumed_token_budget(const Config& config, const DecoderConfig& decoder,
                                 const AssumedDevice& device);

// Checks a budget that `auto` found on another device. Throws Error(kConfig) with advice when a
// rank here has too little memory for it, reserve included. `folder`: the checkpoint that has it.
// Collective. Same preconditions as token_budget().
void check_kept_budget(const Config& config, const DecoderConfig& decoder, std::int64_t tokens,
                       const std::string& folder, const Device& device, World& world);

// Tokens of one rank in an optimizer step: the upper limit of a micro-batch.
std::int64_t max_useful_tokens(const Config& config, int num_ranks);

}  // namespace packtrain
