// Order: in which sequence an epoch visits the selected examples. Consecutive runs of
// global_batch_size examples become the optimizer steps.
#pragma once

#include <cstdint>
#include <span>

#include "framework/config/config.h"
#include "samplers/selection.h"

namespace packtrain {

// Optimizer steps whose examples group_by_length sorts together.
constexpr std::int64_t kStepsPerMegaBatch = 50;

// What an order depends on besides the epoch. Everything given must outlive it.
struct OrderOptions {
  OrderKind kind = OrderKind::kRandom;
  std::uint64_t seed = 0;
  std::int64_t global_batch_size = 1;  // group_by_length: examples of similar length
  const Selection& selection;          // group_by_length: their lengths
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

}  // namespace packtrain
