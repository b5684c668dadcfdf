// debug.check_gathers: checks that every rank gathered the same weights.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "parallel/communicators/communicator.h"

namespace packtrain {

// Stores a checksum of each rank's part of the gathered weights. Ranks compare them once a step;
// the owner's checksum of its own part is the reference.
class GatherCheck {
 public:
  explicit GatherCheck(int num_ranks) : num_ranks_(num_ranks) {}

  // Runs on the gather stream, after the all-gather that wrote `whole` (1-D, the ranks' parts in
  // order).
  void add(const std::string& unit, const at::Tensor& whole);
  // Compares all checksums after their gathers are complete, then clears them. Collective over the
  // ranks that gathered; waits for the device. Throws Error(kReplicasDiffer) on all ranks, naming
  // the unit, the rank with other weights and the rank that owns them.
  void compare(Communicator& communicator, void* stream);

 private:
  int num_ranks_;
  std::vector<std::string> units_;
  std::vector<at::Tensor> sums_;  // int64 [ranks] each
};

}  // namespace packtrain
