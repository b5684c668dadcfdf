#include "training/saving/resume_point.h"

#include <fmt/format.h>

#include <string>

#include "framework/core/error.h"
#include "parallel/communicators/collectives.h"
#include "training/checkpoint/checkpoint.h"
#include "training/saving/named_start.h"

namespace packtrain {
namespace {

// A checkpoint without a plan header still states its data and seed.
ResumePoint resume_point(const TrainingState& state, const std::string& folder) {
  if (state.weights_only) {
    throw Error(ErrorCategory::kCheckpoint,
                fmt::format("{} has weights but no moments (checkpoint.weights_only): training "
                            "cannot continue from it",
                            folder),
                fmt::format("To start a new run from its weights, set model.path: {} and another "
                            "run.output.",
                            folder));
  }
  ResumePoint point{state.step,
                    {},
                    folder,
                    state.guard,
                    state.config_yaml,
                    state.model_config,
                    state.total_steps,
                    state.best_losses,
                    state.validation_set,
                    state.early_stopping,
                    state.evaluation_due,
                    state.samples_due,
                    state.epoch,
                    state.base_digest,
                    state.reference_digest,
                    state.adapter,
                    state.resumed_from};
  if (!state.plan_header.empty()) {
    point.header = parse_plan_header(state.plan_header, folder);
  } else {
    point.header.order_version = 1;
    point.header.settings = {{"data.train", data_setting(state.data_fingerprint)},
                             {"run.seed", std::to_string(state.seed)}};
  }
  return point;
}

}  // namespace

std::optional<ResumePoint> find_resume_point(const Config& config,
                                             const std::set<std::string>& passed_over,
                                             Communicator& control) {
  const std::string root = checkpoints_folder(config.run.output);
  if (config.checkpoint.resume == "never") {
    run_on_first_rank(control, [&]() -> std::string {
      if (!find_latest_checkpoint(root)) return "";
      throw Error(
          ErrorCategory::kConfig,
          fmt::format("{} already holds checkpoints, and checkpoint.resume is never", root),
          "Choose another run.output, set checkpoint.resume to auto, or remove the folder.");
    });
    return std::nullopt;
  }
  if (config.checkpoint.resume == "auto") {
    const auto folder = find_resumable_checkpoint(root, passed_over, control);
    if (!folder) return std::nullopt;
    return resume_point(read_checkpoint_state(*folder), *folder);
  }
  const std::string& named = config.checkpoint.resume;
  const std::string folder =
      run_on_first_rank(control, [&] { return find_named_start(named, root, passed_over); });
  wait_until_seen(folder, control);
  const Manifest manifest = read_checkpoint_manifest(folder);
  ResumePoint point = resume_point(manifest.state, folder);
  if (folder == named) point.resumed_from.push_back(named_checkpoint(named, manifest));
  return point;
}

}  // namespace packtrain
