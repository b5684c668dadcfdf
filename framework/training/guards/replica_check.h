// Whether ranks still hold alike what they should: a bit that flips in one copy of the weights
// makes no number infinite, and no loss tells. Sums of the copies' words are compared bitwise over
// all ranks; nothing waits for the device, the verdict comes with the step's outcome.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "framework/device/device.h"
#include "parallel/sharding/sharded_model.h"
#include "parallel/world.h"

namespace packtrain {

// What each rank's words of one part of the state add up to, [ranks]: empty when `alike` ranks
// (every `stride`-th one of the world) hold the same, else which ranks differ, for people. Of three
// or more the majority is right; of two nobody can tell.
std::string describe_difference(const std::vector<std::int64_t>& sums, int stride);

// Whether describe_difference() would say nothing. Linear in the ranks.
bool all_replicas_equal(std::span<const std::int64_t> sums, int stride);

class ReplicaCheck {
 public:
  // `every`: steps; 0: never. `seed`: of the run's random numbers, which are functions of it and
  // the step. The model must outlive it. One rank has nothing to compare.
  ReplicaCheck(ShardedModel& model, Device& device, const World& world, std::int64_t every,
               std::uint64_t seed);

  // Between the gradient and the update of step `number` (from 1), where one is due. Reads all that
  // is replicated once. Collective.
  void begin(std::int64_t number, double learning_rate);
  // When the outcome of step `number` has been read: throws Error(kReplicasDiffer) naming what
  // differs and the rank, the same on every rank.
  void judge(std::int64_t number);
  // Both at once, for what is to be saved after step `number`. Collective; waits for the device.
  void check_now(std::int64_t number, double learning_rate);

 private:
  struct Sums {
    std::int64_t number = 0;  // of the step they are of; 0: judged
    HostBuffer memory;
    at::Tensor host;  // int64 [ranks, parts], view of memory
  };

  bool is_on() const { return every_ > 0 && num_ranks_ > 1; }
  void take(std::int64_t number, double learning_rate);

  ShardedModel& model_;
  int num_ranks_;
  std::int64_t every_;
  std::int64_t seed_;
  std::vector<ReplicatedState> state_;
  std::array<Sums, 2> sums_;  // taken in turn: one step may be in flight
};

}  // namespace packtrain
