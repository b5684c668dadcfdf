#pragma once

#include <string>
#include <vector>

namespace packtrain {

class Communicator;

// $NCCL_HOSTID, by which NCCL tells hosts apart too, else as gethostname() tells it; "unknown" when
// it cannot.
std::string host_name();

// What tells machines of one name apart, as NCCL does: the boot that this process is in; "" where
// $NCCL_HOSTID is set, or the system does not tell.
std::string machine_id();

struct HostOfRank {
  std::string name;
  std::string machine;
};

// Names of the ranks' hosts, equal exactly for ranks of one machine: where several have one name,
// each but the first has "NAME (of rank R)", R its lowest rank.
std::vector<std::string> tell_hosts_apart(const std::vector<HostOfRank>& ranks);

// The same for the ranks of `all`, over it. Collective.
std::vector<std::string> gather_hosts(Communicator& all);

}  // namespace packtrain
