// parallel.shard_size: as given, or (`auto`) the fewest whole hosts whose memory holds the state.
#pragma once

#include <optional>
#include <string>

#include "framework/config/config.h"
#include "framework/device/device.h"
#include "framework/training/plan/memory_limit.h"
#include "framework/training/plan/memory_plan.h"
#include "models/decoder_config.h"
#include "parallel/sharding/shard_groups.h"
#include "parallel/world.h"

namespace packtrain {

// What decides how many ranks share one copy of the model's state, in a run and in a plan alike.
struct ShardMemory {
  RankHosts hosts;
  MemoryRanks ranks;                 // its shard_size is not read
  std::optional<MemoryLimit> limit;  // of a rank; nothing: memory decides nothing
};

// Whether memory decides: `auto`, several hosts that are alike, and GPUs or memory.limit_gib. A CPU
// host's free memory changes from moment to moment, so that groups would.
bool memory_decides_shard_size(const Config& config, const RankHosts& hosts, DeviceKind device);

// As given. Else the fewest whole hosts, of which all groups have as many, on which the planned
// memory stays within the limit: with micro-batches of a given budget, where no number of hosts has
// room for these with one example of data.max_length, and where not for that either all ranks.
// Without a limit one host. Hosts that are not alike: all ranks. `kept`: what an earlier start of
// the run found, 0 for nothing; stays where it still fits without the reserve.
// Throws Error(kConfig) when the given size does not divide the number of ranks.
int shard_size(const Config& config, const DecoderConfig& decoder, const ShardMemory& room,
               int kept = 0);

struct FoundShardSize {
  int num_ranks = 1;
  bool by_memory = false;  // else a function of configuration and hosts alone
};
// Of a run: the figures of the rank with the least room decide, so that all ranks say the same.
// Rank 0 logs what is not plain. Collective, before the run allocates anything on the device.
FoundShardSize choose_shard_size(const Config& config, const DecoderConfig& decoder,
                                 const Device& device, World& world, int kept = 0);

// "16: 2 hosts x 8, groups of 8", for people.
std::string describe_groups(const RankHosts& hosts, int shard_size);

// A warning with its advice where bfloat16 gradients are added up around a ring that crosses hosts,
// rounded at each hop; else empty.
struct RingRounding {
  std::string what;
  std::string advice;
};
std::optional<RingRounding> ring_rounding(const Config& config, const RankHosts& hosts,
                                          int shard_size, DeviceKind device);

}  // namespace packtrain
