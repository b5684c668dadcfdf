// Checks that ranks hold equal copies of the replicated state. A bit that flips in one copy of the
// weights makes no number infinite, and the loss does not show it. Sums over the copies' bits are
// compared over all ranks. Nothing waits for the device: the result comes with the step's outcome.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "framework/device/device.h"
#include "parallel/communicators/process_mesh.h"
#include "parallel/sharding/sharded_model.h"

namespace packtrain {

// Compares each rank's sum over one part of the state, `sums` [ranks]. Every `stride`-th rank of
// the world must hold the same. Empty when they do, else the ranks that differ, for people. With
// three or more copies the majority is taken as right. With two it cannot be decided.
std::string describe_difference(const std::vector<std::int64_t>& sums, int stride);

// True when describe_difference() would return "". Linear in the ranks.
bool all_replicas_equal(std::span<const std::int64_t> sums, int stride);

class ReplicaCheck {
 public:
  // `every`: steps; 0: never. `seed`: seed of the run's random numbers, which are functions of it
  // and the step. The model must outlive the object. Does nothing with one rank.
  ReplicaCheck(ShardedModel& model, Device& device, std::int64_t every, std::uint64_t seed);

  // Call it between the gradient and the update of step `number` (from 1). Starts a check if one is
  // due. It reads all replicated state once. Collective.
  void begin(std::int64_t number, double learning_rate);
  // Call it when the outcome of step `number` has been read. Throws Error(kReplicasDiffer), the
  // same on every rank, with the rank and the part that differ.
  void judge(std::int64_t number);
  // begin() and judge() together, before a save after step `number`. Collective. Waits for the
  // device.
  void check_now(std::int64_t number, double learning_rate);

 private:
  struct Sums {
    std::int64_t number = 0;  // the step of the sums; 0: judged
    HostBuffer memory;
    at::Tensor host;  // int64 [ranks, parts], view of memory
  };

  bool is_on() const { return every_ > 0 && mesh_.data_parallel_size() > 1; }
  void take(std::int64_t number, double learning_rate);

  ShardedModel& model_;
  ProcessMesh mesh_;
  std::int64_t every_;
  std::int64_t seed_;
  std::vector<ReplicatedState> state_;
  std::array<Sums, 2> sums_;  // used alternately: one step may be in flight
};

}  // namespace packtrain
