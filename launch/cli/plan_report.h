// The result of `packtrain plan`, and its two outputs: text and JSON.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "parallel/sharding/shard_groups.h"
#include "samplers/plan.h"
#include "samplers/selection.h"
#include "training/plan/host_memory_plan.h"
#include "training/plan/memory_plan.h"
#include "training/plan/plan_advice.h"
#include "training/plan/plan_summary.h"
#include "training/plan/token_budget.h"
#include "training/plan/training_tokens.h"
#include "training/setup/validation_overlap.h"

namespace packtrain {

constexpr double kTargetUtilization = 0.95;  // below it the report gives advice

// Number of examples of min_tokens..max_tokens tokens.
struct LengthBin {
  std::int32_t min_tokens = 0;
  std::int32_t max_tokens = 0;
  std::int64_t num_examples = 0;
  std::int64_t num_tokens = 0;
};

// A store of data.train in the first epoch.
struct StoreShare {
  StoreUse use;
  std::optional<double> wanted_share;        // of tokens
  std::optional<double> wanted_probability;  // of examples
  // The trained part of the store.
  std::int64_t num_examples = 0;
  std::int64_t num_tokens = 0;

  double mean_repeats() const {
    return static_cast<double>(use.num_examples) / static_cast<double>(use.num_stored);
  }
};

// The position of an example of a shown step.
struct ShownExample {
  std::string store;
  std::int64_t example = 0;
};

struct PlanWarning {
  std::string name;  // identifier in JSON: "few_steps"
  std::string what;
  std::string advice;
};

// The model and a rank's memory.
struct MemoryForecast {
  std::int64_t num_parameters = 0;  // of the whole model
  std::int64_t num_trained = 0;     // of these
  int num_ranks = 1;
  RankHosts hosts;
  MemoryRanks ranks;        // with the size of the shard groups
  std::string hosts_basis;  // AssumedHosts::basis
  TokenBudget budget;
  MemoryPlan plan;
  std::int64_t gpu_bytes = 0;  // all memory of the assumed GPU; 0: no GPU
  HostMemoryPlan host;
  CheckpointPlan checkpoints;
  std::string fit;        // what memory.fit chooses, for people; empty: it chooses nothing
  std::string recompute;  // resolved memory.recompute
  std::int64_t gather_slots = 0;
  std::string accumulate;  // resolved parallel.accumulate
  std::string remedies;    // when the plan does not fit: settings that do
};

// One of several adapters that are trained together.
struct PlannedAdapter {
  std::string name;
  std::int64_t num_examples = 0;  // of an epoch
  std::int64_t num_steps = 0;     // of its own run
};

struct PlanReport {
  explicit PlanReport(const PlanSummaryOptions& options) : counting(options), survey(options) {}

  PlanSummaryOptions counting;  // rules for counting rows and costs
  Strategy strategy = kDefaultStrategy;
  TrainingTokens training;     // of the whole run
  std::string batch_size_key;  // the key that gives the size of an optimizer step
  std::int64_t num_steps = 0;  // of the whole run
  std::string length;          // as text, with its epochs
  // Steps after which the events happen.
  std::string evaluations;
  std::string saves;
  std::vector<std::pair<std::int64_t, double>>
      learning_rates;                 // step (from 1), rate: at the ends of its linear parts
  PlanSummary survey;                 // of the first epoch
  SelectionCounts losses;             // of an epoch
  std::string group_kind;             // of a store with groups, else empty
  MemoryForecast memory;              // of the epoch's largest micro-batch
  std::optional<double> step_time_s;  // mean; empty without a FLOP rate
  double planning_time_s = 0;         // of the first epoch, without measuring the plan
  std::vector<StepPlan> steps;        // the shown steps
  // Examples of the shown steps, by the plan's example numbers.
  std::map<std::int64_t, ShownExample> shown_examples;
  std::vector<StoreShare> stores;
  std::vector<PlannedAdapter> adapters;  // empty: one or none
  std::vector<LengthBin> lengths;
  std::vector<ValidationOverlap> overlaps;  // of validation stores with training stores
  std::vector<PlanWarning> warnings;
  // Only for the text.
  std::vector<StepLoads> loads;  // of `steps`
  PlanAdvice advice;
};

// Number of examples, or groups, of an epoch that are not trained: empty, without labels (before
// the cut), or too long.
inline std::int64_t left_out(const SelectionCounts& losses) {
  return losses.empty_examples + losses.masked_examples + losses.truncated_to_empty_examples +
         losses.dropped_examples;
}

// One JSON object on one line. `with_steps` adds the assignment of `steps` as
// [rank][micro-batch][piece]{example, begin, length}. A shared prefix is a piece of the first
// example of its group, and the pieces after it begin where it ends. `with_steps` also adds the
// computed rows of each [rank][micro-batch], and for each example its store and its number in the
// store.
std::string plan_to_json(const PlanReport& report, bool with_steps);
std::string plan_to_text(const PlanReport& report);
// Only the memory; its keys are a subset of the full report's.
std::string memory_to_json(const MemoryForecast& memory);
std::string memory_to_text(const MemoryForecast& memory);

}  // namespace packtrain
