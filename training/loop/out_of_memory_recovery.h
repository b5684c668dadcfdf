// Handles a step whose memory runs out on some rank. That rank joins the remaining collectives of
// the step, and of the next one if it began before the others know. Its loss is NaN, so the device
// skips both updates on every rank. The outcomes inform all ranks, which lay the same optimizer
// batch over more micro-batches. Recovery adds no synchronization.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "framework/config/config.h"
#include "framework/data/token_store.h"
#include "framework/device/device.h"
#include "parallel/communicators/world.h"
#include "parallel/sharding/out_of_memory.h"
#include "samplers/plan.h"
#include "training/plan/run_plan.h"
#include "training/steps/step_outcome.h"

namespace packtrain {

class OutOfMemoryRecovery {
 public:
  // All arguments must outlive the object.
  OutOfMemoryRecovery(const Config& config, const TokenStore& store, RunPlan& plan,
                      const Device& device, const World& world)
      : config_(config), store_(store), plan_(plan), device_(device), world_(world) {}

  // Runs a part of the step on this rank. When memory runs out, discards the step and returns
  // false. `phase`: for messages.
  bool try_run(const char* phase, const StepPlan& step, const std::function<void()>& work);
  // This rank ran out of memory. From here until lower_budget() it only joins the collectives of
  // the others' steps. Throws Error(kDevice) when no other layout of the step needs less memory.
  void discard(const StepPlan& step, const OutOfMemory& error);
  bool is_discarding() const { return own_.has_value(); }

  // Call it with the outcome of each step in order. True when the step is discarded on all ranks:
  // a rank ran out of memory in it, or in the step before.
  bool is_discarded(const StepPlan& step, const StepOutcome::Values& values);
  // True when a step was discarded and lower_budget() has not been called since.
  bool is_needed() const { return first_discarded_.has_value(); }

  // Lays the discarded step and later ones over more micro-batches. Call it when all steps are
  // finished and nothing prepared for the old layout is left. Returns the step to continue with.
  // `is_applied`: the weights of that step were updated, and only its Hessian batches are repeated.
  std::int64_t lower_budget(bool is_applied = false);
  // Number of recoveries since the last call.
  std::int64_t take_num_recoveries() { return std::exchange(num_recoveries_, 0); }

 private:
  // The micro-batches of the step's mismatched answers (mismatched_answers.h), or none.
  StepPlan mismatched_of(const StepPlan& step) const;

  const Config& config_;
  const TokenStore& store_;
  RunPlan& plan_;
  const Device& device_;
  const World& world_;
  std::optional<OutOfMemory> own_;  // of this rank
  std::optional<std::int64_t> first_discarded_;
  std::int64_t num_ranks_ = 0;  // that ran out of memory
  std::int64_t num_recoveries_ = 0;
};

}  // namespace packtrain
