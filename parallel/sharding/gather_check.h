// debug.check_gathers: whether every rank gathered the same weights.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "parallel/communicator.h"

namespace packtrain {

// Keeps a checksum of each rank's part of what was gathered, to be compared once a step: the
// owner's own sum is the right one.
class GatherCheck {
 public:
  explicit GatherCheck(int num_ranks) : num_ranks_(num_ranks) {}

  // On the gather stream, behind the all-gather that wrote `whole` (1-D, the ranks' parts in
  // order).
  void add(const std::string& unit, const at::Tensor& whole);
  // Once everything added is done. Collective over the ranks that gathered; waits for the device.
  // Throws Error(kReplicasDiffer), on all ranks alike, naming the unit, the rank that holds other
  // weights and the rank that owns them. Forgets what was added.
  void compare(Communicator& communicator, void* stream);

 private:
  int num_ranks_;
  std::vector<std::string> units_;
  std::vector<at::Tensor> sums_;  // int64 [ranks] each
};

}  // namespace packtrain
