#include "framework/training/run_folder.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "framework/config/load.h"
#include "framework/support/error.h"
#include "framework/support/file.h"

namespace packtrain {

std::string checkpoints_folder(const Config& config) {
  return config.run.output + "/checkpoints";
}

std::string run_name(const Config& config) {
  const std::filesystem::path output = std::filesystem::path(config.run.output).lexically_normal();
  return (output.has_filename() ? output : output.parent_path()).filename().string();
}

void write_run_files(const Config& config, const PlanOptions& options, const Planner& planner,
                     std::int64_t total_steps) {
  make_folders(config.run.output, ErrorCategory::kConfig);
  write_text_atomically(config.run.output + "/config.yaml", dump_config(config),
                        ErrorCategory::kConfig);
  const PlanLosses& losses = planner.losses();
  const nlohmann::json plan = {
      {"seed", options.seed},
      {"num_ranks", options.num_ranks},
      {"global_batch_size", options.global_batch_size},
      {"global_batch_tokens", options.global_batch_tokens},
      {"max_tokens_per_micro_batch", options.max_tokens_per_micro_batch},
      {"cost", {{"linear", options.cost.linear}, {"quadratic", options.cost.quadratic}}},
      {"total_steps", total_steps},
      {"empty_examples", losses.empty_examples},
      {"masked_examples", losses.masked_examples},
      {"dropped_examples", losses.dropped_examples},
      {"truncated_examples", losses.truncated_examples},
      {"split_examples", losses.split_examples}};
  write_text_atomically(config.run.output + "/plan.json", plan.dump(2) + "\n",
                        ErrorCategory::kConfig);
}

}  // namespace packtrain
