// The planner: a pure function from (lengths, options, seed, step) to a StepPlan.
// Every rank computes the same plan without communication; nothing is kept between calls but the
// orders of the current epochs, a cache.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "samplers/loss_counter.h"
#include "samplers/options.h"
#include "samplers/plan.h"
#include "samplers/selection.h"

namespace packtrain {

class Planner {
 public:
  using LossCounter = packtrain::LossCounter;

  // lengths[e], num_loss_tokens[e]: of example e of the store. They and `counter` (asked only about
  // truncated examples) must outlive the planner. Memory: at most 12 bytes an example.
  // Throws Error(kData) when an example is too long (policy error) or no example is left, and
  // Error(kConfig) when an option is out of range, an example or piece cannot fit a micro-batch,
  // or (with padding and padding_free) the longest micro_batch_size of them exceed the budget.
  Planner(std::span<const std::int32_t> lengths, std::span<const std::int32_t> num_loss_tokens,
          const LossCounter& counter, const PlanOptions& options);
  ~Planner();

  // The last step of an epoch holds what is left: fewer than global_batch_size examples.
  std::int64_t steps_per_epoch() const;
  const PlanLosses& losses() const;
  const PlanOptions& options() const;
  // The plan of global step `step` (from 0, across epochs). Its examples depend neither on the
  // number of ranks nor on the strategy. Thread-safe.
  StepPlan plan(std::int64_t step) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace packtrain
