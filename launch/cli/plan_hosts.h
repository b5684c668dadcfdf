// The hosts that `packtrain plan` assumes.
#pragma once

#include <optional>
#include <string>

#include "framework/config/config.h"
#include "parallel/sharding/shard_groups.h"

namespace packtrain {

constexpr int kMaxPlannedRanks = 1 << 20;

struct HostArguments {
  std::optional<int> num_ranks;
  std::optional<int> num_hosts;
  std::optional<int> ranks_per_host;
};

struct AssumedHosts {
  RankHosts hosts;
  std::string basis;  // why it assumes this number of ranks a host; empty when an option gave it
};

// Defaults to one rank. The ranks a host, where neither these nor hosts are given, are the number
// of this machine's GPUs (`num_gpus`) if the backend may use them. Without GPUs all ranks are on
// one host. A last host that is not full makes the hosts unequal. Throws Error(kConfig) where the
// three numbers contradict each other.
AssumedHosts assumed_hosts(const Config& config, const HostArguments& given, int num_gpus);

}  // namespace packtrain
