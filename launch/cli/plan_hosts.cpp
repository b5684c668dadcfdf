#include "launch/cli/plan_hosts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "framework/core/error.h"

namespace packtrain {
namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorCategory::kConfig, what,
              "Two of --ranks, --hosts and --ranks-per-node are enough: ranks are hosts times "
              "ranks a host.");
}

RankHosts hosts_of(int num_ranks, int ranks_per_host) {
  return {num_ranks, std::min(num_ranks, ranks_per_host),
          num_ranks <= ranks_per_host || num_ranks % ranks_per_host == 0};
}

RankHosts of_known_hosts(const HostArguments& given, int num_hosts) {
  if (given.ranks_per_host && !given.num_ranks) {
    const std::int64_t ranks = std::int64_t{num_hosts} * *given.ranks_per_host;
    if (ranks > kMaxPlannedRanks) {
      refuse(fmt::format("{} hosts of {} ranks are {} ranks: at most {} are planned for", num_hosts,
                         *given.ranks_per_host, ranks, kMaxPlannedRanks));
    }
    return hosts_of(static_cast<int>(ranks), *given.ranks_per_host);
  }
  const int num_ranks = given.num_ranks.value_or(num_hosts);
  if (!given.ranks_per_host && num_ranks % num_hosts != 0) {
    refuse(fmt::format("--ranks {} over --hosts {}: not as many ranks on each host", num_ranks,
                       num_hosts));
  }
  const RankHosts hosts = hosts_of(num_ranks, given.ranks_per_host.value_or(num_ranks / num_hosts));
  if (hosts.num_hosts() != num_hosts) {
    refuse(fmt::format("--ranks {} with --ranks-per-node {} take {} hosts, --hosts says {}",
                       num_ranks, *given.ranks_per_host, hosts.num_hosts(), num_hosts));
  }
  return hosts;
}

}  // namespace

AssumedHosts assumed_hosts(const Config& config, const HostArguments& given, int num_gpus) {
  if (given.num_hosts) return {of_known_hosts(given, *given.num_hosts), ""};
  const int num_ranks = given.num_ranks.value_or(given.ranks_per_host.value_or(1));
  if (given.ranks_per_host) return {hosts_of(num_ranks, *given.ranks_per_host), ""};
  const bool may_use_gpu = config.parallel.backend.value_or(Backend::kNccl) == Backend::kNccl;
  if (num_ranks == 1) return {on_one_host(1), ""};
  if (!may_use_gpu || num_gpus == 0) {
    return {on_one_host(num_ranks), "assumed to be on one host: --ranks-per-node says otherwise"};
  }
  return {
      hosts_of(num_ranks, num_gpus),
      fmt::format("{} a host, as many as this machine has GPUs: --ranks-per-node says otherwise",
                  num_gpus)};
}

}  // namespace packtrain
