// Figures of many steps from their plans alone, before anything runs.
#pragma once

#include <cstdint>
#include <vector>

#include "samplers/options.h"
#include "samplers/plan.h"

namespace packtrain {

struct PlanSummaryOptions {
  CostModel cost;   // unit of utilization; its constant is not counted
  CostModel flops;  // training FLOPs of an example, for the length of a step
  std::int64_t max_tokens_per_micro_batch = 1;
  std::int64_t row_multiple = 1;  // the collator rounds rows up to a multiple of it
  bool pad_to_longest = false;  // the collator pads each example to the longest of its micro-batch
};

// Cost for utilization: L + L^2 / (6 hidden). The second term is attention's share in a decoder
// whose layers have 12 hidden^2 weights.
CostModel utilization_cost(std::int64_t hidden_size);

// The most of any micro-batch.
struct LargestCounts {
  std::int64_t tokens = 0;
  std::int64_t rows = 0;
  std::int64_t keys = 0;
};

// Sums and means over the added steps. A step takes the sum over micro-batches of the slowest
// rank's time, because ranks synchronize at every micro-batch.
class PlanSummary {
 public:
  explicit PlanSummary(const PlanSummaryOptions& options) : options_(options) {}

  void add(const StepPlan& plan);

  std::int64_t num_steps() const { return num_steps_; }
  std::int64_t num_examples() const { return counts_.num_examples; }
  std::int64_t num_tokens() const { return counts_.num_tokens; }
  std::int64_t num_loss_tokens() const { return counts_.num_loss_tokens; }
  // These are 0 for stores without groups.
  std::int64_t num_groups() const { return counts_.num_groups; }
  std::int64_t max_rows_in_group() const { return max_group_rows_; }
  // Rows that sharing prefixes saves / rows without sharing.
  double saved_fraction() const;
  std::int64_t split_examples() const { return split_examples_; }  // examples in several pieces
  std::int64_t num_micro_batches() const { return num_micro_batches_; }  // of one rank
  std::int64_t max_tokens_in_micro_batch() const { return largest_.tokens; }
  std::int64_t max_rows_in_micro_batch() const { return largest_.rows; }  // with all padding
  // Keys of attention, copies of prefixes included; 0: no example shares a prefix.
  std::int64_t max_keys_in_micro_batch() const { return largest_.keys; }

  double fill() const;              // tokens / (ranks x micro-batches x budget)
  double padding_fraction() const;  // rows without a token / all rows
  // Means over steps; 1 without steps.
  double token_imbalance() const { return mean(token_imbalance_, 1.0); }  // slowest / mean rank
  // Cost of all examples / (ranks x the slowest rank's cost, pads included). 1 when no rank ever
  // waits.
  double cost_utilization() const { return mean(utilization_, 1.0); }
  // Upper bound of the utilization for these pieces, under any assignment. A step takes at least as
  // long as an equal share of its cost, and as its largest piece or group.
  double cost_bound() const { return mean(bound_, 1.0); }
  double step_flops() const {
    return mean(step_flops_, 0.0);
  }  // of the slowest ranks, pads included

 private:
  double mean(double sum, double of_none) const {
    return num_steps_ > 0 ? sum / static_cast<double>(num_steps_) : of_none;
  }

  PlanSummaryOptions options_;
  std::int64_t num_steps_ = 0;
  StepCounts counts_;  // sums without the weights
  std::int64_t max_group_rows_ = 0;
  std::int64_t saved_rows_ = 0;
  std::int64_t split_examples_ = 0;
  std::int64_t num_micro_batches_ = 0;
  LargestCounts largest_;
  std::int64_t rows_ = 0;
  std::int64_t slots_ = 0;  // ranks x micro-batches
  double token_imbalance_ = 0;
  double utilization_ = 0;
  double bound_ = 0;
  double step_flops_ = 0;
};

// Utilization cost of each rank in one step, over all micro-batches. `step`: sum over micro-batches
// of the slowest rank's cost.
struct StepLoads {
  std::vector<double> ranks;
  double step = 0;
};

StepLoads step_loads(const StepPlan& plan, const PlanSummaryOptions& options);

// Rows that a rank computes for a micro-batch, padding included.
std::int64_t rows_in(const MicroBatch& pieces, const PlanSummaryOptions& options);

}  // namespace packtrain
