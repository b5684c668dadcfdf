#pragma once

#include <string>
#include <vector>

namespace packtrain {

class Communicator;

// $NCCL_HOSTID, which NCCL also uses to distinguish hosts, else gethostname(); "unknown" when that
// fails.
std::string host_name();

// Distinguishes machines of one name, as NCCL does: the id of the system's boot. "" where
// $NCCL_HOSTID is set, or where the system has no such id.
std::string machine_id();

struct HostOfRank {
  std::string name;
  std::string machine;
};

// Names of the ranks' hosts, equal exactly for ranks of one machine. Where several machines have
// one name, each but the first gets "NAME (of rank R)"; R is its lowest rank.
std::vector<std::string> unique_host_names(const std::vector<HostOfRank>& ranks);

// Collective. The same for the ranks of `all`, which gathers the names.
std::vector<std::string> gather_hosts(Communicator& all);

}  // namespace packtrain
