// The plan of an evaluation of some consecutive examples of a store.
#pragma once

#include <cstdint>

#include "framework/data/token_store.h"
#include "samplers/plan.h"

namespace packtrain {

struct ExampleRange {
  std::int64_t first = 0;  // examples first to end - 1 of a store
  std::int64_t end = 0;
};

// As plan_evaluation() of these examples (samplers/evaluation_plan.h), one by one also where the
// store has groups.
StepPlan plan_evaluation(const TokenStore& store, const ExampleRange& range,
                         std::int64_t max_tokens_per_micro_batch, int num_ranks,
                         std::int64_t lowered);

}  // namespace packtrain
