// Settings that make a plan better, found by planning a sample of steps with each candidate.
#pragma once

#include <cstdint>
#include <optional>

#include "framework/data/example_counts.h"
#include "samplers/options.h"
#include "training/plan/plan_summary.h"

namespace packtrain {

struct Utilization {
  double reached = 1;
  double bound = 1;
};

// A setting and the utilization that it reaches.
struct Candidate {
  std::int64_t value = 0;
  Utilization utilization;
};

struct PlanAdvice {
  std::optional<Utilization> balanced;  // the same batches under strategy balanced
  std::optional<Candidate> batch_size;  // the smallest doubling that reaches the target
  std::optional<Candidate> num_ranks;   // the first halving that reaches it
};

// Plans up to 32 steps for each candidate, over a sample of the lengths in their order. Candidates:
// doublings of the batch size as far as the sample allows, halvings of the number of ranks down to
// 1. A candidate that cannot be planned (a budget too small for it) ends its search. Takes under a
// second. lengths[e]: length of example e of the store.
PlanAdvice advise(const ExampleCounts& lengths, const PlanOptions& options,
                  const PlanSummaryOptions& survey, double target);

}  // namespace packtrain
