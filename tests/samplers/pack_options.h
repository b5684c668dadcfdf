// Options of multipack: a step has N full packs.
#pragma once

#include <cstdint>

#include "samplers/options.h"

namespace packtrain::test {

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
