// Epochs: which step of which epoch a global step is, and the batches of the epochs in use.
#pragma once

#include <cstdint>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "samplers/batches/epoch_batches.h"
#include "samplers/options.h"
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
  // Everything given must outlive it.
  Epochs(const Selection& selection, const PlanOptions& options, const StrategyEntry& strategy);

  // The batches of an epoch, made by the first who asks. Those of the two epochs asked for last are
  // kept, so that planning ahead across the end of an epoch makes none twice.
  std::shared_ptr<const EpochBatches> batches(std::int64_t epoch) const;
  // Whether batches() would answer without making or waiting.
  bool is_ready(std::int64_t epoch) const;

  // Where the numbers of steps differ between epochs, makes the epochs up to the answer once.
  StepPosition position(std::int64_t step) const;
  // Steps of the first `num_epochs` epochs, or `at_most` where these are more.
  std::int64_t num_steps(std::int64_t num_epochs, std::optional<std::int64_t> at_most) const;

 private:
  using Batches = std::shared_ptr<const EpochBatches>;
  struct Entry {
    std::int64_t epoch = -1;
    std::shared_future<Batches> batches;
  };

  Batches make(std::int64_t epoch) const;
  void append_epoch() const;  // to the table, whose mutex is held

  const Selection& selection_;
  const PlanOptions& options_;
  const StrategyEntry& strategy_;
  std::optional<std::int64_t> steps_per_epoch_;  // where all epochs have as many
  mutable std::mutex cache_mutex_;
  mutable Entry latest_;
  mutable Entry previous_;
  mutable std::mutex table_mutex_;
  mutable std::vector<std::int64_t> first_steps_ = {0};  // [epoch], as far as known
};

}  // namespace packtrain
