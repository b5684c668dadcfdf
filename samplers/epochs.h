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

// All of it thread-safe. A pure function of what it is made from: what is kept is a cache.
class Epochs {
 public:
  // Everything given must outlive it. `start`: its epoch has the examples that were not trained
  // before, in the order that they have among all; where none is left the plan begins with the
  // next epoch.
  Epochs(const Selection& selection, const PlanOptions& options, const StrategyEntry& strategy,
         PlanStart start = {});

  // The batches of an epoch, made by the first who asks. Those of the two epochs asked for last are
  // kept, so that planning ahead across the end of an epoch makes none twice.
  std::shared_ptr<const EpochBatches> batches(std::int64_t epoch) const;
  // Whether batches() would answer without making or waiting.
  bool is_ready(std::int64_t epoch) const;

  const PlanStart& start() const { return start_; }
  // Where the numbers of steps differ between epochs, makes the epochs up to the answer once, and
  // of the last one as many steps as are asked for. Of steps before the start the beginning of the
  // start's epoch.
  StepPosition position(std::int64_t step) const;
  // The first step behind the epoch that `step` is of. Makes no further epoch.
  std::int64_t epoch_end(std::int64_t step) const;
  // Where all epochs have as many steps.
  std::optional<std::int64_t> steps_per_epoch() const { return steps_per_epoch_; }
  // The global step behind the first `num_epochs` epochs, or `at_most` where that is more; at least
  // the start's. Where numbers of steps differ each epoch is made once, one at a time, and only the
  // start's is kept.
  std::int64_t num_steps(std::int64_t num_epochs, std::optional<std::int64_t> at_most) const;

  // The first epoch whose number of steps num_steps() has to find by making it. None where the
  // numbers follow from one epoch's.
  std::optional<std::int64_t> first_uncounted() const;
  // Of an epoch. Keeps nothing of it, but the start's, which is trained next.
  std::int64_t count_steps(std::int64_t epoch) const;
  // Counts of epochs from `first` on that somebody else found. Those known already are skipped.
  void add_counts(std::int64_t first, std::span<const std::int64_t> counts) const;

 private:
  using Batches = std::shared_ptr<const EpochBatches>;
  struct Entry {
    std::int64_t epoch = -1;
    std::shared_future<Batches> batches;
  };

  Batches make(std::int64_t epoch) const;
  // What is kept of it, or is being made by another thread.
  std::optional<std::shared_future<Batches>> kept(std::int64_t epoch) const;
  // The table's mutex is held: the first epoch whose number of steps it does not know, whether that
  // has a global step, and adding its number.
  std::int64_t newest_epoch() const;
  bool newest_has(std::int64_t step) const;
  // All whole epochs have the same order, and so the same steps.
  bool are_equal() const { return options_.order == OrderKind::kSequential; }
  void append_epoch() const;
  Order order(std::int64_t epoch) const;
  // With equal numbers of steps: behind the start's epoch where that is a part of one.
  StepPosition whole_start() const;

  const Selection& selection_;
  const PlanOptions& options_;
  const StrategyEntry& strategy_;
  std::optional<std::int64_t> steps_per_epoch_;  // where all whole epochs have as many
  PlanStart start_;
  std::int64_t rest_steps_ = 0;  // of the start's epoch, where examples of it were trained before
  mutable std::mutex cache_mutex_;
  mutable Entry latest_;
  mutable Entry previous_;
  mutable std::mutex table_mutex_;
  mutable std::vector<std::int64_t> first_steps_;  // [epoch - the start's], as far as known
  mutable std::int64_t equal_steps_ = 0;           // of an epoch where all are alike; 0: not known
};

}  // namespace packtrain
