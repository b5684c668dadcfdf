// batch.max_tokens_per_micro_batch: as given, or (`auto`) as much as memory holds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "framework/config/config.h"
#include "framework/device/device.h"
#include "framework/training/plan/memory_plan.h"
#include "models/decoder_config.h"
#include "parallel/world.h"

namespace packtrain {

// What one rank may use of its device's memory.
struct MemoryLimit {
  std::int64_t bytes = 0;
  std::int64_t with_reserve = 0;  // the same, nothing left aside
  std::string basis;              // where the figure comes from, for people
};

struct TokenBudget {
  std::int64_t tokens = 0;           // real tokens and pads of one rank's micro-batch
  std::optional<MemoryLimit> limit;  // it was found within; nothing: it was given
};

// memory.limit_gib, which then holds all that a rank takes, else of the device
// CUDA: 96 % of its memory; the rest is for what the allocator cannot use of freed memory;
// CPU: half of what the host has available, divided by its `ranks_on_host`.
// Throws Error(kConfig) when the host does not tell its memory.
MemoryLimit memory_limit(const MemorySection& memory, const Device& device, int ranks_on_host);

// The device of each of `num_ranks` ranks, as this machine lets one expect it: GPUs like its first
// one, where it has one and the backend may use it, or GPUs of `gpu_gib`; else CPU ranks on it.
struct AssumedDevice {
  MemoryRanks ranks;
  std::int64_t gpu_bytes = 0;  // GPU: all its memory
  std::string whose;           // GPU: for people
};
AssumedDevice assume_device(const Config& config, int num_ranks,
                            std::optional<double> gpu_gib = std::nullopt);
MemoryLimit assumed_memory_limit(const MemorySection& memory, const AssumedDevice& device);

// The largest multiple of the collator's row multiple whose memory plan stays within the limit, but
// no more than the largest optimizer step could use (with packs: a rank's share of it, so that
// every rank gets one) nor than rows can be numbered in 32 bits.
// Throws Error(kConfig) with the plan when there is no room for data.max_length tokens.
std::int64_t largest_token_budget(const Config& config, const DecoderConfig& decoder,
                                  const MemoryRanks& ranks, const MemoryLimit& limit);

// The configured budget, or the one for the rank with the least room. Collective, before the run
// allocates anything on the device.
TokenBudget token_budget(const Config& config, const DecoderConfig& decoder, const Device& device,
                         World& world);
// Without devices or ranks.
TokenBudget assumed_token_budget(const Config& config, const DecoderConfig& decoder,
                                 const AssumedDevice& device);

// A budget that `auto` found on another device: throws Error(kConfig) with advice when a rank here
// has no room for it, reserve included. `folder`: of the checkpoint it is from. Collective.
void check_kept_budget(const Config& config, const DecoderConfig& decoder, std::int64_t tokens,
                       const std::string& folder, const Device& device, World& world);

// Tokens that a rank may have in an optimizer step: no micro-batch can hold more.
std::int64_t most_useful_tokens(const Config& config, int num_ranks);

}  // namespace packtrain
