// The planner: a pure function from (lengths, options, seed, step) to a StepPlan. Every rank
// computes the same plan without communication. It keeps only the batches of the current epochs, as
// a cache.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "framework/core/random.h"
#include "framework/data/example_counts.h"
#include "samplers/batches/epoch_batches.h"
#include "samplers/epochs.h"
#include "samplers/loss_counter.h"
#include "samplers/options.h"
#include "samplers/plan.h"
#include "samplers/plan_start.h"
#include "samplers/selection.h"

namespace packtrain {

class Planner;

// A plan whose steps are assigned to ranks together with those of other plans.
struct JoinedPlan {
  std::unique_ptr<Planner> planner;
  std::int64_t first_example = 0;  // number of its first example among those of all plans
  std::int64_t num_steps = 0;      // later steps have no examples of it
};

class Planner {
 public:
  using LossCounter = packtrain::LossCounter;

  // lengths[e] and num_loss_tokens[e] describe example e of the store. They and `counter` must
  // outlive the planner; `counter` supplies weights and the labels of truncated examples. Memory:
  // at most 12 bytes an example. `start`: where it continues another plan; earlier steps are never
  // planned.
  // Throws Error(kData) when an example is too long (policy error) or no example is left. Throws
  // Error(kConfig) when an option is out of range, or an example or piece cannot fit a micro-batch.
  // With padding and padding_free also when the longest micro_batch_size of them exceed the budget.
  Planner(const ExampleCounts& lengths, const ExampleCounts& num_loss_tokens,
          const LossCounter& counter, const PlanOptions& options, PlanStart start = {});
  // Plans a store, which must outlive the planner. Where the store has groups, sizes of steps and
  // micro-batches, epochs and starts count groups. Tokens are then rows that are computed. Throws
  // as above, and Error(kConfig) for options that would cut a group.
  Planner(const TokenStore& store, const PlanOptions& options, PlanStart start = {});
  ~Planner();

  // Replaces the options' budget, cost and speeds: each layout from its step on, the first one also
  // before. Ascending steps. A budget may be below the options', for which the constructor made its
  // checks. Packs and chunks above it are divided; a sequence above it has a micro-batch of its
  // own. Do not call it while other threads plan.
  void set_layouts(std::span<const PlanLayout> layouts);

  // From now on plan() also has step k of `others` in step k: all pieces are assigned together, by
  // this planner's strategy and layouts. `num_steps`: of this plan alone. The other functions are
  // about this planner's own examples, which come first.
  void join(std::vector<JoinedPlan> others, std::int64_t num_steps);

  // Number of steps of the first `num_epochs` epochs, at most `at_most`. Epochs may differ where
  // steps are counted in tokens. An epoch's last step holds the rest.
  std::int64_t num_steps(std::int64_t num_epochs,
                         std::optional<std::int64_t> at_most = std::nullopt) const;
  // Number of steps of a run: `max_steps`, which may end within an epoch or repeat more than
  // `num_epochs`; or those of `num_epochs` epochs.
  std::int64_t num_run_steps(const RunSection& run) const;
  // Has a value where all epochs have equal numbers of steps.
  std::optional<std::int64_t> steps_per_epoch() const;
  // Ranks may divide the counting of epochs' steps. These give the first epoch that num_steps()
  // would have to make, the steps of one (Epochs::count_steps), and accept the counts of other
  // ranks.
  std::optional<std::int64_t> first_uncounted_epoch() const;
  std::int64_t count_steps(std::int64_t epoch) const;
  void add_counts(std::int64_t first, std::span<const std::int64_t> counts) const;
  // The first global step after the epoch of `step`.
  std::int64_t epoch_end(std::int64_t step) const;
  // True when global step `step` is the last one of its epoch.
  bool ends_epoch(std::int64_t step) const { return epoch_end(step) == step + 1; }
  // The position of global step `step` (from 0, across epochs).
  StepPosition position(std::int64_t step) const;
  // The start of a plan of the same examples that continues this one after the steps before `step`.
  // It reads the steps of that epoch.
  PlanStart start_at(std::int64_t step) const;
  const PlanStart& start() const;  // of this plan
  const SelectionCounts& losses() const;
  // [examples, or groups] Tokens of each, of groups the rows that are computed.
  ExampleCounts unit_lengths() const;
  const PlanOptions& options() const;
  // The plan of a global step. Its examples do not depend on the number of ranks; padding,
  // padding_free and balanced have equal examples. Thread-safe.
  StepPlan plan(std::int64_t step) const;
  // The plan of a share of the step's units (step_share.h), which `random` chooses. Its ranks are
  // balanced as those of a step, and it has the same examples on any number of ranks. It has no
  // ranks where the share has no labels. Thread-safe. Not for joined plans.
  StepPlan plan_share(std::int64_t step, double share, const CounterRandom& random) const;
  // Makes the cached part of an epoch, so that its first step does not wait for it. Thread-safe.
  void prepare_epoch(std::int64_t epoch) const;
  // True when the epoch is prepared and still cached. Thread-safe; never waits.
  bool is_epoch_prepared(std::int64_t epoch) const;

 private:
  struct State;

  StepPieces pieces(std::int64_t step) const;
  StepCounts counts(const StepPieces& pieces) const;
  void plan_together(std::int64_t step, StepPlan& plan) const;

  std::unique_ptr<State> state_;
};

}  // namespace packtrain
