// batch.max_tokens_per_micro_batch: as given, or (`auto`) as much as memory holds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "framework/config/config.h"
#include "framework/device/device.h"
#include "framework/training/plan/memory_limit.h"
#include "framework/training/plan/memory_plan.h"
#include "models/decoder_config.h"
#include "parallel/world.h"

namespace packtrain {

struct TokenBudget {
  std::int64_t tokens = 0;           // real tokens and pads of one rank's micro-batch
  std::optional<MemoryLimit> limit;  // it was found within; nothing: it was given
};

// The largest multiple of the collator's row multiple whose memory plan stays within the limit, but
// no more than the largest optimizer step could use (with packs: a rank's share of it, so that
// every rank gets one) nor than rows can be numbered in 32 bits.
// Throws Error(kConfig) with the plan when there is no room for data.max_length tokens.
std::int64_t largest_token_budget(const Config& config, const DecoderConfig& decoder,
                                  const MemoryRanks& ranks, const MemoryLimit& limit);

// The configured budget, or the one for the rank with the least room. Collective, before the run
// allocates anything on the device. parallel.shard_size: what choose_shard_size() came to.
TokenBudget token_budget(const Config& config, const DecoderConfig& decoder, const Device& device,
                         World& world);
// Without devices or ranks.
TokenBudget assumed_token_budget(const Config& config, const DecoderConfig& decoder,
                                 const AssumedDevice& device);

// A budget that `auto` found on another device: throws Error(kConfig) with advice when a rank here
// has no room for it, reserve included. `folder`: of the checkpoint it is from. Collective. As
// above.
void check_kept_budget(const Config& config, const DecoderConfig& decoder, std::int64_t tokens,
                       const std::string& folder, const Device& device, World& world);

// Tokens that a rank may have in an optimizer step: no micro-batch can hold more.
std::int64_t max_useful_tokens(const Config& config, int num_ranks);

}  // namespace packtrain
