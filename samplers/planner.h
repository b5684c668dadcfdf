// The planner: a pure function from (lengths, options, seed, step) to a StepPlan.
// Every rank computes the same plan without communication; nothing is kept between calls but the
// batches of the current epochs, a cache.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "framework/data/example_counts.h"
#include "samplers/epochs.h"
#include "samplers/loss_counter.h"
#include "samplers/options.h"
#include "samplers/plan.h"
#include "samplers/plan_start.h"
#include "samplers/selection.h"

namespace packtrain {

class Planner {
 public:
  using LossCounter = packtrain::LossCounter;

  // lengths[e], num_loss_tokens[e]: of example e of the store. They and `counter` (asked about
  // weights and truncated examples) must outlive the planner. Memory: at most 12 bytes an example.
  // Throws Error(kData) when an example is too long (policy error) or no example is left, and
  // Error(kConfig) when an option is out of range, an example or piece cannot fit a micro-batch,
  // or (with padding and padding_free) the longest micro_batch_size of them exceed the budget.
  // `start`: where it goes on from another plan; its steps before are never planned.
  Planner(const ExampleCounts& lengths, const ExampleCounts& num_loss_tokens,
          const LossCounter& counter, const PlanOptions& options, PlanStart start = {});
  ~Planner();

  // Lays steps over ranks by these instead of the options' own budget, cost and speeds: each from
  // its step on, the first one also before. Ascending. A budget may be below the options', for
  // which the constructor's checks were made: packs and chunks above it come apart, and a sequence
  // above it has a micro-batch of its own. Not while other threads plan.
  void set_layouts(std::span<const PlanLayout> layouts);

  // Steps of the first `num_epochs` epochs, or `at_most` where these are more. Epochs may differ
  // where steps are counted in tokens. An epoch's last step holds what is left.
  std::int64_t num_steps(std::int64_t num_epochs,
                         std::optional<std::int64_t> at_most = std::nullopt) const;
  // Steps of a run: `max_steps`, which may end within an epoch or repeat more than `num_epochs`; or
  // those of `num_epochs` epochs.
  std::int64_t num_run_steps(const RunSection& run) const;
  // Where all epochs have as many steps.
  std::optional<std::int64_t> steps_per_epoch() const;
  // Ranks may count the steps of epochs in shares: the first one that num_steps() would have to
  // make, the steps of one (Epochs::count_steps), and what others counted from `first` on.
  std::optional<std::int64_t> first_uncounted_epoch() const;
  std::int64_t count_steps(std::int64_t epoch) const;
  void add_counts(std::int64_t first, std::span<const std::int64_t> counts) const;
  // The first global step behind the epoch that `step` is of.
  std::int64_t epoch_end(std::int64_t step) const;
  // Whether global step `step` is its epoch's last one.
  bool ends_epoch(std::int64_t step) const { return epoch_end(step) == step + 1; }
  // Of global step `step` (from 0, across epochs).
  StepPosition position(std::int64_t step) const;
  // Where another plan of the same examples goes on when this one's steps before `step` are done.
  // Looks at the steps of that epoch.
  PlanStart start_at(std::int64_t step) const;
  const PlanStart& start() const;  // its own
  const SelectionCounts& losses() const;
  const PlanOptions& options() const;
  // The plan of a global step. Its examples do not depend on the number of ranks; under padding,
  // padding_free and balanced neither on the strategy. Thread-safe.
  StepPlan plan(std::int64_t step) const;
  // Makes what plan() keeps of an epoch, so that its first step need not. Thread-safe.
  void prepare_epoch(std::int64_t epoch) const;
  // Whether that is done and still kept. Thread-safe, without waiting.
  bool is_epoch_prepared(std::int64_t epoch) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace packtrain
