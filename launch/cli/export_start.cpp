#include "launch/cli/export_start.h"

#include <fmt/format.h>

#include <filesystem>

#include "framework/core/error.h"
#include "training/checkpoint/checkpoint.h"
#include "training/setup/saved_config.h"

namespace packtrain {
namespace {

constexpr int kLongestChain = 100;  // of runs; a checkpoint may refer to itself

}  // namespace

RunStart start_of(const TrainingState& state) {
  const ModelSection model = config_of_run(state).model;
  return {model.path, model.prefix};
}

RunStart first_start_of(const TrainingState& state) {
  RunStart start = start_of(state);
  for (int k = 0; k < kLongestChain && is_checkpoint(start.folder); ++k) {
    start = start_of(read_checkpoint_state(start.folder));
  }
  return start;
}

void write_whole(const TrainingState& state, const std::string& moved_to, ExportOptions& options) {
  const RunStart start = first_start_of(state);
  const std::string folder = moved_to.empty() ? start.folder : moved_to;
  if (!std::filesystem::exists(std::filesystem::path(folder) / "config.json")) {
    throw Error(
        ErrorCategory::kCheckpoint,
        fmt::format("{}: the model that the run's text model is a part of is not there", folder),
        "Give its folder as --base, or --text-only to write the text model alone.");
  }
  options.whole_folder = folder;
  options.prefix = start.prefix;
}

}  // namespace packtrain
