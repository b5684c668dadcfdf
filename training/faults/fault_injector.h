// Injects the configured fault (`fault.kind`) once and logs it.
#pragma once

#include <cstdint>
#include <memory>

#include "framework/config/config.h"
#include "parallel/sharding/sharded_model.h"
#include "training/faults/collective_faults.h"

namespace packtrain {

class FaultInjector {
 public:
  // Injects nothing after a restart (PACKTRAIN_RESTARTS above 0), since the fault has already
  // occurred.
  FaultInjector(const FaultSection& fault, int rank);

  // The run is in `phase` of step `number` (from 1). Load and shutdown have no step. The faults of
  // this call: abort raises SIGABRT; hang never returns; slow sleeps; stop raises SIGTERM, as a
  // scheduler does.
  void maybe_inject(FaultPhase phase, std::int64_t number = 0);
  // Call it before the step's forward. out_of_memory: once, at the block that fault.block,
  // fault.micro_batch and fault.backward name. spin: a kernel that never ends. Faults of
  // collectives: of the next one.
  void before_compute(std::int64_t number, std::size_t num_micro_batches, ShardedModel& model);
  // Call it before the forward of a step's Hessian batches. out_of_memory with fault.phase hessian:
  // as above, in these batches.
  void before_hessian(std::int64_t number, std::size_t num_micro_batches, ShardedModel& model);
  // Call it between backward and the optimizer. nan_gradient: one element of this rank's shard.
  // flip_bit: of the first weight that other ranks hold as well.
  void before_update(std::int64_t number, ShardedModel& model);
  // The run's communicators must be decorated with it. Null when fault.kind is none of theirs.
  std::shared_ptr<CollectiveFaults> collectives() const { return collectives_; }

 private:
  bool is_due(FaultPhase phase, std::int64_t number) const;
  bool fires(FaultKind kind, std::int64_t number);  // for any fault.phase
  void log_fault(std::int64_t number);
  void run_out_of_memory(std::size_t num_micro_batches, ShardedModel& model);

  FaultSection fault_;
  int rank_;
  bool armed_;
  bool logged_ = false;
  std::shared_ptr<CollectiveFaults> collectives_;
};

}  // namespace packtrain
