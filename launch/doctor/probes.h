// Facts that ranks find together, without tensors. All functions are collective.
#pragma once

#include <string>
#include <vector>

#include "framework/config/config.h"
#include "launch/doctor/judgement.h"
#include "parallel/communicators/world.h"

namespace packtrain {

// An injected problem on one rank, for tests and for trying doctor. "disk", "products", "clock":
// slow, or a wrong time. "folder": the rank sees another folder. "": none.
struct InjectedFault {
  std::string kind;
  int rank = 0;

  bool is(const char* wanted, const World& world) const {
    return kind == wanted && rank == world.rank();
  }
};

// Reads "KIND:RANK", RANK one of `num_ranks`. Throws Error(kConfig).
InjectedFault parse_injected_fault(const std::string& text, int num_ranks);

// Bytes that each rank writes in the disk test: 16 MiB, or less so that all together write 4 GiB.
std::size_t disk_test_bytes(int num_ranks);

// disk_folder, disk_mb_s or disk_error: every rank writes disk_test_bytes() there and syncs them.
// All write at the same time, as they do for a checkpoint. The best of three times counts.
void probe_disk(const std::string& folder, const InjectedFault& trouble, World& world,
                Facts& facts);

// view_error: checks that every rank reads a file of rank 0 there within 5 s.
void probe_shared_folder(const std::string& folder, const InjectedFault& trouble, World& world,
                         Facts& facts);

// clock_skew_s: how far this clock is ahead of rank 0's, as measured at a barrier.
void probe_clock(const InjectedFault& trouble, World& world, Facts& facts);

// stores: hashes of the descriptions of the stores that the configuration names.
void probe_stores(const Config& config, Facts& facts);

// port, port_error: the address at which this rank would serve metrics.
void probe_port(const MetricsSection& metrics, const World& world, Facts& facts);

}  // namespace packtrain
