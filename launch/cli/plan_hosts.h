// The hosts that `packtrain plan` plans for.
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
  std::string basis;  // for people: why as many ranks a host, where no option said; else empty
};

// One rank, unless told otherwise. Ranks a host, where neither these nor hosts are given: as many
// as this machine has GPUs (`num_gpus`) if the backend may use them; without any all ranks on one
// host. A last host that is not full makes hosts that are not alike.
// Throws Error(kConfig) where the three numbers contradict each other.
AssumedHosts assumed_hosts(const Config& config, const HostArguments& given, int num_gpus);

}  // namespace packtrain
