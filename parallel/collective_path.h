// Which path the collectives of NCCL take: decided from what all ranks have in common.
#pragma once

#include <string>

#include "parallel/communicator.h"

namespace packtrain {

// The least that any rank of a communicator has.
struct PathFacts {
  int nccl_version = 0;     // at run time, as NCCL writes it: 22809 is 2.28.9
  int driver_version = 0;   // CUDA's version that the driver knows: 12080 is 12.8
  bool one_host = false;    // of all ranks
  bool cta_policy = false;  // the environment leaves the choice of copy engines to us
  bool windows = false;     // NCCL made a symmetric window when asked to
};

struct PathChoice {
  CollectivePath path = CollectivePath::kRing;
  std::string missing;  // what the path asked for would need; empty when it is taken
};

const char* path_name(CollectivePath path);  // "ring", "symmetric", "copy_engine"

// The path asked for or the next lower one that can be had: copy engines, symmetric kernels, ring.
// Throws Error(kDevice) naming what is missing where a required one cannot be had.
PathChoice choose_path(const CommunicatorOptions& options, const PathFacts& facts);

// Throws Error(kDevice) when the NCCL found at run time is older than the one built against: it
// may lack calls.
void require_nccl_version(int found, int built);

}  // namespace packtrain
