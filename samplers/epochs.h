// Epochs: which step of which epoch a global step is, and the batches of the epochs in use.
#pragma once

#include <cstdint>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "samplers/batches/epoch_batches.h"
#include "samplers/options.h"
#include "samplers/plan_start.h"
#include "samplers/selection.h"
#include "samplers/strategies/strategy.h"

namespace packtrain {

struct StepPosition {
  std::int64_t epoch = 0;
  std::int64_t step_of_epoch = 0;
};

// Thread-safe. Results are pure functions of the constructor's arguments; the state is a cache.
class Epochs {
 public:
  // The arguments must outlive it. The epoch of `start` has the examples that were not trained
  // before, in the order of the whole epoch. Where none is left the plan begins with the next
  // epoch.
  Epochs(const Selection& selection, const PlanOptions& options, const StrategyEntry& strategy,
         PlanStart start = {});

  // The batches of an epoch; the first caller makes them. Those of the two latest epochs are
  // cached, so that planning across the end of an epoch makes none twice.
  std::shared_ptr<const EpochBatches> batches(std::int64_t epoch) const;
  // True when batches() returns without making or waiting.
  bool is_ready(std::int64_t epoch) const;

  const PlanStart& start() const { return start_; }
  // Where epochs differ in their numbers of steps, it makes each epoch up to the answer once. In
  // the last one it finds only the steps up to `step`. For steps before the start it returns the
  // begin of the start's epoch.
  StepPosition position(std::int64_t step) const;
  // The first step after the epoch of `step`. Makes no further epoch.
  std::int64_t epoch_end(std::int64_t step) const;
  // Has a value where all epochs have equal numbers of steps.
  std::optional<std::int64_t> steps_per_epoch() const { return steps_per_epoch_; }
  // The first global step after `num_epochs` epochs, at most `at_most` and at least the start's
  // step. Where numbers of steps differ each epoch is made once, one at a time, and only the
  // start's is cached.
  std::int64_t num_steps(std::int64_t num_epochs, std::optional<std::int64_t> at_most) const;

  // The first epoch that num_steps() has to make to find its number of steps. Nothing where the
  // numbers follow from one epoch's.
  std::optional<std::int64_t> first_uncounted() const;
  // The number of steps of an epoch. Only the start's epoch is cached, because it is trained next.
  std::int64_t count_steps(std::int64_t epoch) const;
  // Adds counts of epochs from `first` on that other ranks found. Known counts are skipped.
  void add_counts(std::int64_t first, std::span<const std::int64_t> counts) const;

 private:
  using Batches = std::shared_ptr<const EpochBatches>;
  struct Entry {
    std::int64_t epoch = -1;
    std::shared_future<Batches> batches;
  };

  Batches make(std::int64_t epoch) const;
  // The epoch if it is cached, or if another thread is making it.
  std::optional<std::shared_future<Batches>> kept(std::int64_t epoch) const;
  // Callers hold the mutex of the table of first steps. newest_epoch() is the first epoch whose
  // number of steps is unknown.
  std::int64_t newest_epoch() const;
  bool newest_has(std::int64_t step) const;
  // All whole epochs have the same order, and so the same steps.
  bool are_equal() const { return options_.order == OrderKind::kSequential; }
  void append_epoch() const;
  Order order(std::int64_t epoch) const;
  // With equal numbers of steps: the begin of the first whole epoch, which follows a partly trained
  // one.
  StepPosition whole_start() const;

  const Selection& selection_;
  const PlanOptions& options_;
  const StrategyEntry& strategy_;
  std::optional<std::int64_t> steps_per_epoch_;  // where all whole epochs have equal numbers
  PlanStart start_;
  std::int64_t rest_steps_ = 0;  // of a start's epoch that was trained in part
  mutable std::mutex cache_mutex_;
  mutable Entry latest_;
  mutable Entry previous_;
  mutable std::mutex table_mutex_;
  mutable std::vector<std::int64_t> first_steps_;  // [epoch - the start's], the known ones
  mutable std::int64_t equal_steps_ = 0;           // of an epoch where all are equal; 0: not known
};

}  // namespace packtrain
