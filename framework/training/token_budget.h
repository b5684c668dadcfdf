// batch.max_tokens_per_micro_batch: as given, or (`auto`) as much as memory holds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "framework/config/config.h"
#include "framework/device/device.h"
#include "models/decoder_config.h"
#include "parallel/world.h"

namespace packtrain {

// What one rank may use of its device's memory.
struct MemoryLimit {
  std::int64_t bytes = 0;
  std::string basis;  // where the figure comes from, for people
};

struct TokenBudget {
  std::int64_t tokens = 0;           // real tokens and pads of one rank's micro-batch
  std::optional<MemoryLimit> limit;  // it was found within; nothing: it was given
};

// memory.limit_gib, else of what is available on `device` now:
// CUDA: 95 %, less 1 GiB (communication buffers, libraries' workspaces, fragmentation);
// CPU: half, divided by the host's `ranks_on_host`.
// Throws Error(kConfig) when the host does not tell its memory.
MemoryLimit memory_limit(const MemorySection& memory, const Device& device, int ranks_on_host);

// The same without opening a device: all of this machine's first GPU less its context (0.75 GiB),
// where there is one and the backend may use it, else `num_ranks` CPU ranks on this host.
MemoryLimit assumed_memory_limit(const Config& config, int num_ranks);

// The largest multiple of the collator's row multiple whose estimate_memory() stays within the
// limit, but no more than the largest optimizer step could use (with packs: a rank's share of it,
// so that every rank gets one) nor than rows can be numbered in 32 bits.
// Throws Error(kConfig) with the estimate when there is no room for data.max_length tokens.
std::int64_t largest_token_budget(const Config& config, const DecoderConfig& decoder, int num_ranks,
                                  const MemoryLimit& limit);

// The configured budget, or the one for the least limit of all ranks. Collective.
TokenBudget token_budget(const Config& config, const DecoderConfig& decoder, const Device& device,
                         World& world);
// Without devices or ranks.
TokenBudget assumed_token_budget(const Config& config, const DecoderConfig& decoder, int num_ranks);

}  // namespace packtrain
