// What ranks find out together, without tensors. All are collective.
#pragma once

#include <string>
#include <vector>

#include "framework/config/config.h"
#include "launch/doctor/judgement.h"
#include "parallel/world.h"

namespace packtrain {

// Trouble made on purpose on one rank, for tests and for seeing what doctor says of it:
// "disk", "products", "clock" (slow, or off) or "folder" (sees another one). "": none.
struct InjectedFault {
  std::string kind;
  int rank = 0;

  bool is(const char* wanted, const World& world) const {
    return kind == wanted && rank == world.rank();
  }
};

// Reads "KIND:RANK", RANK one of `num_ranks`. Throws Error(kConfig).
InjectedFault parse_injected_fault(const std::string& text, int num_ranks);

// What each rank writes in a test of the disk: 16 MiB, or less so that all together write 4 GiB.
std::size_t disk_test_bytes(int num_ranks);

// disk_folder, disk_mb_s or disk_error: every rank writes disk_test_bytes() there and syncs them,
// all at once as they save a checkpoint; the best of three times.
void probe_disk(const std::string& folder, const InjectedFault& trouble, World& world,
                Facts& facts);

// view_error: whether a file of rank 0 is what every rank reads there, within 5 s.
void probe_shared_folder(const std::string& folder, const InjectedFault& trouble, World& world,
                         Facts& facts);

// clock_skew_s: this clock ahead of rank 0's, as far as the moment of a barrier tells.
void probe_clock(const InjectedFault& trouble, World& world, Facts& facts);

// stores: their description's hash, of those that the configuration names.
void probe_stores(const Config& config, Facts& facts);

// port, port_error: where this rank's metrics would be served.
void probe_port(const MetricsSection& metrics, const World& world, Facts& facts);

}  // namespace packtrain
