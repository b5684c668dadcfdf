#pragma once

#include "framework/metrics/metrics.h"

namespace packtrain {

// Every field differs from every other, so that mixed-up fields are seen.
inline StepRecord distinct_record() {
  StepRecord r;
  r.step = 12;
  r.epoch = 1;
  r.loss = 3.2141234567890123;
  r.grad_norm = 0.91;
  r.learning_rate = 9.8e-6;
  r.num_examples = 64;
  r.num_tokens = 12'000;
  r.num_loss_tokens = 9'000;
  r.num_padding_tokens = 800;
  r.num_skipped_steps = 1;
  r.num_out_of_memory = 3;
  r.step_time_s = 0.5;
  r.tokens_per_second = 24'000;
  r.tokens_per_second_per_device = 6'000;
  r.model_tflops_per_device = 321.5;
  r.mfu = 0.412;
  r.padding_fraction = 0.0625;
  r.fill = 0.97;
  r.token_imbalance = 1.25;
  r.cost_imbalance = 1.125;
  r.forward_s = 0.125;
  r.backward_s = 0.25;
  r.optimizer_s = 0.0625;
  r.data_wait_s = 0.003;
  r.gather_wait_s = 0.0125;
  r.reduce_wait_s = 0.0075;
  r.comm_wait_s = 0.02;
  r.checkpoint_wait_s = 0.75;
  r.num_failed_saves = 2;
  r.checkpoint_step = 8;
  r.checkpoint_unix_time_s = 1.75e9;
  r.checkpoint_duration_s = 4.5;
  r.peak_memory_bytes = 70'000'000'000;
  r.allocated_memory_bytes = 30'000'000'000;
  r.reserved_memory_bytes = 72'000'000'000;
  r.communication_memory_bytes = 4'000'000'000;
  r.num_allocation_retries = 7;
  r.num_unwritten_lines = 3;
  r.slowest_rank = 5;
  r.slowest_ratio = 1.375;
  return r;
}

}  // namespace packtrain
