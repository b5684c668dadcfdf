// Injects the fault that the configuration asks for (`fault.kind`), once, and says so.
#pragma once

#include <cstdint>

#include "framework/config/config.h"
#include "parallel/sharding/sharded_model.h"

namespace packtrain {

class FaultInjector {
 public:
  // Nothing is injected after a restart (PACKTRAIN_RESTARTS above 0): the fault has been there.
  FaultInjector(const FaultSection& fault, int rank);

  // The run is in `phase`, of step `number` (from 1). abort: SIGABRT; hang: never returns; slow:
  // sleeps; stop: SIGTERM, as a scheduler sends. The load and the shutdown are of no step.
  void maybe_inject(FaultPhase phase, std::int64_t number = 0);
  // Before the step's forward. out_of_memory: once, at the block that fault.block,
  // fault.micro_batch and fault.backward name; spin: a kernel that never ends; the kinds of
  // collectives: parallel/faulty_communicator.h.
  void before_compute(std::int64_t number, std::size_t num_micro_batches, ShardedModel& model);
  // Between backward and the optimizer. nan_gradient: one element of this rank's
  // shard; flip_bit: of the first weight that other ranks hold as well.
  void before_update(std::int64_t number, ShardedModel& model);

 private:
  bool is_due(FaultPhase phase, std::int64_t number) const;
  bool fires(FaultKind kind, std::int64_t number);  // whatever fault.phase says
  void log_fault(std::int64_t number);

  FaultSection fault_;
  int rank_;
  bool armed_;
  bool logged_ = false;
};

}  // namespace packtrain
