// One of several ranks, which allocates as a run's rank does. There are no others, so no collective
// can run.
#pragma once

#include "parallel/communicators/forwarding_communicator.h"
#include "parallel/communicators/world.h"

namespace packtrain {

class LoneRank final : public ForwardingCommunicator {
 public:
  LoneRank(World& world, int num_ranks)
      : ForwardingCommunicator(world.connect(Backend::kLocal)), num_ranks_(num_ranks) {}
  int size() const override { return num_ranks_; }

 private:
  int num_ranks_;
};

}  // namespace packtrain
