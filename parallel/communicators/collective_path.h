// Selects the path of NCCL's collectives from properties that all ranks share.
#pragma once

#include <string>

#include "parallel/communicators/communicator.h"

namespace packtrain {

// For each property, the minimum over the ranks of a communicator.
struct PathFacts {
  int nccl_version = 0;     // at run time, in NCCL's notation: 22809 is 2.28.9
  int driver_version = 0;   // the CUDA version of the driver: 12080 is 12.8
  bool one_host = false;    // all ranks are on one host
  bool cta_policy = false;  // the environment does not set NCCL's policy of copy engines
  bool windows = false;     // NCCL can make a symmetric window
};

struct PathChoice {
  CollectivePath path = CollectivePath::kRing;
  std::string missing;  // what the requested path lacks; empty when it is taken
};

const char* path_name(CollectivePath path);  // "ring", "symmetric", "copy_engine"

// Returns the requested path, or the next lower one that is available: copy engines, symmetric
// kernels, ring. Throws Error(kDevice) naming what is missing where a required path is not
// available.
PathChoice choose_path(const CommunicatorOptions& options, const PathFacts& facts);

// Throws Error(kDevice) when the NCCL found at run time is older than that of the build, because it
// may lack functions.
void require_nccl_version(int found, int built);

}  // namespace packtrain
