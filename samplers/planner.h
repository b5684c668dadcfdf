// The planner: a pure function from (lengths, options, seed, step) to a StepPlan.
// Every rank computes the same plan without communication; nothing is kept between calls but the
// order of the current epoch, a cache.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "framework/config/config.h"
#include "samplers/plan.h"

namespace packtrain {

// Cost of a micro-batch on one rank: sum over examples of linear * L + quadratic * L^2, + constant.
struct CostModel {
  double linear = 1.0;
  double quadratic = 0.0;
  double constant = 0.0;
};

struct PlanOptions {
  Strategy strategy = Strategy::kBalanced;
  OrderKind order = OrderKind::kRandom;
  TooLong too_long = TooLong::kError;
  std::int64_t max_length = 4096;
  std::int64_t global_batch_size = 64;  // examples an optimizer step
  std::int64_t micro_batch_size = 4;    // padding_free only
  std::int64_t max_tokens_per_micro_batch = 16384;
  std::uint64_t seed = 0;
  int num_ranks = 1;
  CostModel cost;
};

// What was left out or cut, of one epoch.
struct PlanLosses {
  std::int64_t empty_examples = 0;    // no tokens
  std::int64_t masked_examples = 0;   // no supervised token
  std::int64_t dropped_examples = 0;  // longer than max_length, policy drop
  std::int64_t truncated_examples = 0;
};

class Planner {
 public:
  // lengths[e], num_loss_tokens[e]: of example e of the store; both must outlive the planner.
  // `loss_tokens_before(e, n)` counts supervised labels among the first n tokens, for truncation.
  // Throws Error(kData) when an example is too long (policy error) or no example is left, and
  // Error(kConfig) when one cannot fit a micro-batch or micro_batch_size examples exceed the
  // budget.
  class LossCounter {
   public:
    virtual ~LossCounter() = default;
    virtual std::int64_t loss_tokens_before(std::int64_t example,
                                            std::int32_t num_tokens) const = 0;
  };
  Planner(std::span<const std::int32_t> lengths, std::span<const std::int32_t> num_loss_tokens,
          const LossCounter& counter, const PlanOptions& options);
  ~Planner();

  std::int64_t steps_per_epoch() const;
  const PlanLosses& losses() const;
  // The plan of global step `step` (from 0, across epochs). Thread-safe.
  StepPlan plan(std::int64_t step) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace packtrain
