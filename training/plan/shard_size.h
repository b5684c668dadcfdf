// Resolves parallel.shard_size: the given size, or with `auto` the fewest whole hosts whose memory
// holds the state.
#pragma once

#include <optional>
#include <string>

#include "framework/config/config.h"
#include "framework/device/device.h"
#include "models/layers/decoder_config.h"
#include "parallel/communicators/world.h"
#include "parallel/sharding/shard_groups.h"
#include "training/plan/memory_limit.h"
#include "training/plan/memory_plan.h"

namespace packtrain {

// Inputs that decide how many ranks share one copy of the model's state, in a run and in a plan.
struct ShardMemory {
  RankHosts hosts;
  MemoryRanks ranks;                 // its shard_size is ignored
  std::optional<MemoryLimit> limit;  // of a rank; nothing: memory does not decide
};

// Whether memory decides: `auto`, several equal hosts, and GPUs or memory.limit_gib. Free memory of
// a CPU host varies, so groups chosen by it would vary too.
bool memory_decides_shard_size(const Config& config, const RankHosts& hosts, DeviceKind device);

// Returns the given size. With `auto`, returns the fewest whole hosts on which the planned memory
// stays within the limit and that divide the hosts into equal groups. The plan has micro-batches of
// the given budget. If no number of hosts can hold these, it has micro-batches of one example of
// data.max_length. If these do not fit either, or hosts are unequal, the group is all ranks.
// Without a limit it is one host. `kept`: the result of an earlier start of the run, 0 for none. It
// stays when it still fits without the reserve.
// Throws Error(kConfig) when the given size does not divide the number of ranks.
int shard_size(const Config& config, const DecoderConfig& decoder, const ShardMemory& memory,
               int kept = 0);

struct FoundShardSize {
  int num_ranks = 1;
  bool by_memory = false;  // else a function of configuration and hosts alone
};
// Resolves it for a run. The figures of the rank with the least free memory decide, so all ranks
// agree. Rank 0 logs an unusual result. Collective. Must run before the run allocates anything on
// the device.
FoundShardSize choose_shard_size(const Config& config, const DecoderConfig& decoder,
                                 const Device& device, World& world, int kept = 0);

// "16: 2 hosts x 8, groups of 8", for people.
std::string describe_groups(const RankHosts& hosts, int shard_size);

// A warning and its advice when bfloat16 gradients are added along a ring across hosts, rounded at
// each hop. Else empty.
struct RingRounding {
  std::string what;
  std::string advice;
};
std::optional<RingRounding> ring_rounding(const Config& config, const RankHosts& hosts,
                                          int shard_size, DeviceKind device);

}  // namespace packtrain
