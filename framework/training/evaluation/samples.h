// samples.jsonl in the run folder: how the model goes on with beginnings of examples, every so many
// steps.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "framework/device/device.h"
#include "framework/metrics/metrics_file.h"
#include "framework/training/evaluation/generation.h"
#include "framework/training/evaluation/prompts.h"
#include "parallel/sharding/sharded_model.h"
#include "parallel/world.h"

namespace packtrain {

class Samples {
 public:
  // Rank 0 opens the file and cuts what was written after `first_step`. Everything given by
  // reference must outlive this. Throws Error(kConfig) when there is no prompt.
  Samples(std::vector<Prompt> prompts, const GenerationOptions& options,
          const std::string& run_folder, std::int64_t first_step, Device& device, World& world);

  // Collective; `step`: 1 after the first one. A line for each prompt. Throws what
  // generate_continuations() does.
  void write(ShardedModel& model, std::int64_t step);

  // From here on micro-batches of several texts have at most so many tokens.
  void lower_budget(std::int64_t max_tokens) { options_.lowered = max_tokens; }

 private:
  std::vector<Prompt> prompts_;
  GenerationOptions options_;
  Device& device_;
  World& world_;
  std::unique_ptr<MetricsFile> file_;  // rank 0
};

}  // namespace packtrain
