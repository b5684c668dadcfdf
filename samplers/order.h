// Order: in which sequence an epoch visits the selected examples. Consecutive runs of
// global_batch_size examples become the optimizer steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "framework/config/config.h"
#include "samplers/selection.h"

namespace packtrain {

// Optimizer steps whose examples group_by_length sorts together.
constexpr std::int64_t kStepsPerMegaBatch = 50;

// Examples of an epoch up to which `random` and `group_by_length` shuffle a table of them.
constexpr std::int64_t kMaxShuffled = std::int64_t{1} << 26U;

// 1: a shuffled table, however many examples. 2: above kMaxShuffled a permutation that is computed
// (permutation.h). A run keeps the version that it began with.
constexpr int kOrderVersion = 2;

// What an order depends on besides the epoch. Everything given must outlive it.
struct OrderOptions {
  OrderKind kind = OrderKind::kRandom;
  std::uint64_t seed = 0;
  std::int64_t global_batch_size = 1;  // group_by_length: examples of similar length
  const Selection& selection;          // group_by_length: their lengths
  int version = kOrderVersion;
  std::int64_t most_shuffled = kMaxShuffled;
};

// Rearranges `examples` (ascending on entry) for one epoch; a pure function of its arguments.
// sequential: as stored.
// random: Fisher-Yates shuffle, a new one each epoch.
// group_by_length: that shuffle, cut into mega-batches of kStepsPerMegaBatch steps; each is sorted
// by length and cut into steps, longest example first, and these steps are shuffled inside it. So
// lengths are similar within a step, and no example moves kStepsPerMegaBatch * global_batch_size
// places or more from where the shuffle put it. The epoch's short last step, where there is one,
// takes neighbours from anywhere in the lengths of the last mega-batch.
void arrange(const OrderOptions& options, std::int64_t epoch, std::span<ExampleIndex> examples);

// The order of an epoch: a table that arrange() made, or above options.most_shuffled examples one
// that takes no memory for each (group_by_length: 4 bytes for each of one mega-batch).
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
  // As a table: 4 bytes for each.
  std::vector<ExampleIndex> take_table() &&;

 private:
  class Computed;

  ExampleIndex compute(std::size_t place) const;

  std::size_t size_;
  std::vector<ExampleIndex> table_;
  std::unique_ptr<const Computed> computed_;
};

}  // namespace packtrain
