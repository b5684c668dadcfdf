#include "training/saving/run_folder.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "framework/config/load.h"
#include "framework/core/error.h"
#include "framework/core/file.h"

namespace packtrain {

std::string run_name(const Config& config) {
  const std::filesystem::path output = std::filesystem::path(config.run.output).lexically_normal();
  return (output.has_filename() ? output : output.parent_path()).filename().string();
}

void write_run_files(const Config& config, const RunPlan& plan) {
  make_folders(config.run.output, ErrorCategory::kConfig);
  write_text_atomically(config.run.output + "/config.yaml", dump_config(config),
                        ErrorCategory::kConfig);
  const SelectionCounts& losses = plan.planner().losses();
  auto json = nlohmann::ordered_json::parse(plan_header_text(plan.header()));
  json["total_steps"] = plan.total_steps();
  json["empty_examples"] = losses.empty_examples;
  json["masked_examples"] = losses.masked_examples;
  json["cut_to_nothing_examples"] = losses.truncated_to_empty_examples;
  json["dropped_examples"] = losses.dropped_examples;
  json["truncated_examples"] = losses.truncated_examples;
  json["split_examples"] = losses.split_examples;
  write_text_atomically(config.run.output + "/plan.json", json.dump(2) + "\n",
                        ErrorCategory::kConfig);
}

}  // namespace packtrain
