// Writes samples.jsonl in the run folder: the model's continuations of prompts, every N steps.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "framework/device/device.h"
#include "framework/metrics/metrics_file.h"
#include "parallel/communicators/world.h"
#include "parallel/sharding/sharded_model.h"
#include "training/evaluation/generation.h"
#include "training/evaluation/prompts.h"

namespace packtrain {

class Samples {
 public:
  // Rank 0 opens the file and removes lines after `first_step`. Prompts are in the order of their
  // adapters. Arguments passed by reference must outlive the object. Throws Error(kConfig) when
  // there is no prompt.
  Samples(std::vector<Prompt> prompts, const GenerationOptions& options,
          const std::string& run_folder, std::int64_t first_step, Device& device, World& world);

  // Collective. Writes a line for each prompt. `step` counts from 1. Throws the errors of
  // generate_continuations().
  void write(ShardedModel& model, std::int64_t step);

  // Limits the tokens of micro-batches with several texts from here on.
  void lower_budget(std::int64_t max_tokens) { options_.lowered = max_tokens; }

 private:
  using Continuations = std::vector<std::vector<std::int32_t>>;

  // In the order of the prompts. Each adapter continues its own, as in a run of its own.
  Continuations generate(ShardedModel& model, std::int64_t step, const GenerationOptions& options);
  void write_without_adapter(ShardedModel& model, std::int64_t step);

  std::vector<Prompt> prompts_;  // by adapter
  GenerationOptions options_;
  Device& device_;
  World& world_;
  std::unique_ptr<MetricsFile> file_;  // rank 0
  Continuations without_adapter_;      // by prompt
};

}  // namespace packtrain
