// Planners of multipack, and their options.
#pragma once

#include <cstdint>

#include "samplers/options.h"
#include "samplers/planner.h"
#include "tests/samplers/lengths.h"

namespace packtrain::test {

inline constexpr std::int32_t kLongest = 600;
inline const EveryTokenCounts kCounter;

inline Planner make_planner(const Examples& examples, const PlanOptions& options) {
  return {examples.lengths, examples.num_loss_tokens, kCounter, options};
}

// A step has `packs_per_step` full packs.
inline PlanOptions pack_options(std::int64_t capacity, std::int64_t packs_per_step) {
  PlanOptions options;
  options.strategy = Strategy::kMultipack;
  options.order = OrderKind::kSequential;
  options.max_length = capacity;
  options.global_batch_size = 0;
  options.global_batch_tokens = packs_per_step * capacity;
  options.max_tokens_per_micro_batch = capacity;
  return options;
}

}  // namespace packtrain::test
