// The plan of an evaluation of some consecutive examples of a store.
#pragma once

#include <cstdint>
#include <memory>

#include "framework/data/token_store.h"
#include "samplers/group_units.h"
#include "samplers/plan.h"

namespace packtrain {

struct ExampleRange {
  std::int64_t first = 0;  // examples first to end - 1 of a store
  std::int64_t end = 0;
  // The store's groups, where their examples share prefixes. Null: examples are taken one by one.
  std::shared_ptr<const GroupUnits> units = nullptr;
};

// As plan_evaluation() of these examples (samplers/evaluation_plan.h). The examples of a group that
// share a prefix follow it in one micro-batch, as many of them as it holds.
StepPlan plan_evaluation(const TokenStore& store, const ExampleRange& range,
                         std::int64_t max_tokens_per_micro_batch, int num_ranks,
                         std::int64_t lowered);

}  // namespace packtrain
