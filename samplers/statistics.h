// How well a plan uses the machine. All figures are known before the step runs.
#pragma once

#include <cstdint>
#include <span>

#include "samplers/options.h"
#include "samplers/plan.h"

namespace packtrain {

struct PlanStatistics {
  double fill = 0;                      // real tokens / (ranks * micro-batches * token budget)
  double padding_fraction = 0;          // rows that hold no real token / all rows
  std::int64_t num_padding_tokens = 0;  // the number of these rows
  // All ranks synchronize at every micro-batch, so the step takes the sum over micro-batches of the
  // slowest rank. Divided by the mean rank's sum: 1 = no rank waits. Its inverse is the
  // utilisation.
  double token_imbalance = 1;
  double cost_imbalance = 1;
};

// Rows of a batch of `num_tokens` tokens, rounded up to a multiple of `row_multiple` (>= 1). At
// least `row_multiple`: an empty micro-batch is one dummy sequence.
std::int64_t num_rows(std::int64_t num_tokens, std::int64_t row_multiple);

// Statistics of the whole step over all ranks. `row_multiple`: the collator rounds rows up to it.
// `pad_to_longest`: the collator pads every piece to the longest of the micro-batch. This padding
// counts as padding and has the cost of tokens, but is not counted as tokens. `speeds` [ranks]: a
// rank takes cost / speed; empty: equal speeds.
PlanStatistics plan_statistics(const StepPlan& plan, const CostModel& cost,
                               std::int64_t max_tokens_per_micro_batch, std::int64_t row_multiple,
                               bool pad_to_longest = false, std::span<const double> speeds = {});

}  // namespace packtrain
