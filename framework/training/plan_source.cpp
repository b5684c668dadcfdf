#include "framework/training/plan_source.h"

#include <algorithm>

#include "models/decoder.h"

namespace packtrain {

PlanOptions plan_options(const Config& config, const DecoderConfig& decoder, int num_ranks) {
  PlanOptions options;
  options.strategy = config.batch.strategy;
  options.order = config.batch.order;
  options.too_long = config.data.too_long;
  options.max_length = config.data.max_length;
  options.global_batch_size = config.batch.global_batch_size;
  options.micro_batch_size = config.batch.micro_batch_size;
  options.max_tokens_per_micro_batch = config.batch.max_tokens_per_micro_batch;
  options.seed = config.run.seed;
  options.num_ranks = num_ranks;
  options.cost.linear = training_flops(decoder, 1.0, 0.0);
  options.cost.quadratic = training_flops(decoder, 0.0, 1.0);
  return options;
}

std::int64_t total_steps(const RunSection& run, std::int64_t steps_per_epoch) {
  const std::int64_t steps = steps_per_epoch * run.num_epochs;
  return run.max_steps ? std::min(steps, *run.max_steps) : steps;
}

}  // namespace packtrain
