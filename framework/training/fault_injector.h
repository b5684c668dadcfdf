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

  // Before step `number` (from 1) computes. abort: SIGABRT; hang: never returns; slow: sleeps.
  void before_step(std::int64_t number);
  // Between backward and the optimizer. nan_gradient: one element of this rank's shard.
  void before_update(std::int64_t number, ShardedModel& model);

 private:
  bool fires(FaultKind kind, std::int64_t number) const;

  FaultSection fault_;
  bool armed_;
};

}  // namespace packtrain
