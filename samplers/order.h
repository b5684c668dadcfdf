// Order: in which sequence an epoch visits the selected examples. Consecutive runs of
// global_batch_size examples become the optimizer steps.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "framework/config/config.h"
#include "samplers/selection.h"

namespace packtrain {

// Rearranges `examples` (ascending on entry) for one epoch; a pure function of its arguments.
// sequential: as stored. random: Fisher-Yates shuffle, a new one each epoch.
void arrange(OrderKind order, std::uint64_t seed, std::int64_t epoch,
             std::span<ExampleIndex> examples);

// The orders of the epochs in use. Keeps the latest two, so that planning ahead across the end of
// an epoch does not shuffle again and again: 8 bytes an example. Thread-safe.
class EpochOrders {
 public:
  // `examples` must outlive it.
  EpochOrders(OrderKind order, std::uint64_t seed, std::span<const ExampleIndex> examples)
      : order_(order), seed_(seed), examples_(examples) {}

  std::shared_ptr<const std::vector<ExampleIndex>> of_epoch(std::int64_t epoch) const;

 private:
  struct Entry {
    std::int64_t epoch = -1;
    std::shared_ptr<const std::vector<ExampleIndex>> order;
  };

  OrderKind order_;
  std::uint64_t seed_;
  std::span<const ExampleIndex> examples_;
  mutable std::mutex mutex_;
  mutable Entry latest_;
  mutable Entry previous_;
};

}  // namespace packtrain
