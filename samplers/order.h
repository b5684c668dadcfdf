// Order: the sequence in which an epoch visits the selected examples. Each next global_batch_size
// examples become an optimizer step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "framework/config/config.h"
#include "samplers/selection.h"

namespace packtrain {

// Number of optimizer steps whose examples group_by_length sorts together.
constexpr std::int64_t kStepsPerMegaBatch = 50;

// Largest number of examples for which `random` and `group_by_length` shuffle a table.
constexpr std::int64_t kMaxShuffled = std::int64_t{1} << 26U;

// 1: a shuffled table for any number of examples. 2: above kMaxShuffled a computed permutation
// (permutation.h). A run keeps the version that it began with.
constexpr int kOrderVersion = 2;

// The inputs of an order other than the epoch. They must outlive it.
struct OrderOptions {
  OrderKind kind = OrderKind::kRandom;
  std::uint64_t seed = 0;
  std::int64_t global_batch_size = 1;  // group_by_length: examples of a step
  const Selection& selection;          // group_by_length: lengths of the examples
  int version = kOrderVersion;
  std::int64_t most_shuffled = kMaxShuffled;
};

// Rearranges `examples` (ascending on entry) for one epoch. A pure function of its arguments.
//
//   sequential: as stored
//   random: a Fisher-Yates shuffle, a new one each epoch
//   group_by_length: that shuffle, cut into mega-batches of kStepsPerMegaBatch steps
//
// Each mega-batch is sorted by length and cut into steps, longest example first. These steps are
// shuffled inside it. So lengths are similar within a step, and every example moves fewer than
// kStepsPerMegaBatch * global_batch_size positions from its position in the shuffle. A short last
// step of the epoch takes neighbours from any position in the sorted last mega-batch.
void arrange(const OrderOptions& options, std::int64_t epoch, std::span<ExampleIndex> examples);

// The order of an epoch: a table of arrange(), or above options.most_shuffled examples a computed
// order. The computed order has no table; group_by_length keeps 4 bytes for each example of one
// mega-batch.
class Order {
 public:
  Order(const OrderOptions& options, std::int64_t epoch);
  // NOLINTNEXTLINE(google-explicit-constructor): a table is an order
  Order(std::vector<ExampleIndex> table);
  ~Order();
  Order(Order&&) noexcept;
  Order& operator=(Order&&) = delete;

  std::size_t size() const { return size_; }
  // Thread-safe.
  ExampleIndex operator[](std::size_t place) const {
    return computed_ == nullptr ? table_[place] : compute(place);
  }
  // Returns the order as a table of 4 bytes an example.
  std::vector<ExampleIndex> take_table() &&;

 private:
  class Computed;

  ExampleIndex compute(std::size_t place) const;

  std::size_t size_;
  std::vector<ExampleIndex> table_;
  std::unique_ptr<const Computed> computed_;
};

}  // namespace packtrain
