// Resumes a run: finds the checkpoint, one replica reads it, the others receive it.
#include <fmt/format.h>

#include <optional>
#include <set>
#include <span>
#include <string>

#include "framework/core/error.h"
#include "framework/core/logging.h"
#include "framework/core/units.h"
#include "parallel/communicators/collectives.h"
#include "training/checkpoint/checkpoint.h"
#include "training/loop/trainer.h"
#include "training/saving/run_folder.h"
#include "training/setup/collective_read.h"

namespace packtrain {
namespace {

// A checkpoint without a plan header still states its data and seed.
ResumePoint resume_point(const TrainingState& state, const std::string& folder) {
  if (state.weights_only) {
    throw Error(ErrorCategory::kCheckpoint,
                fmt::format("{} has weights but no moments (checkpoint.weights_only): training "
                            "cannot go on from it",
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
                    state.epoch};
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

std::optional<ResumePoint> Trainer::find_resume_point(const std::set<std::string>& passed_over) {
  const std::string root = checkpoints_folder(config_.run.output);
  if (config_.checkpoint.resume == "never") {
    run_on_first_rank(world_.control(), [&]() -> std::string {
      if (!find_latest_checkpoint(root)) return "";
      throw Error(
          ErrorCategory::kConfig,
          fmt::format("{} already holds checkpoints, and checkpoint.resume is never", root),
          "Choose another run.output, set checkpoint.resume to auto, or remove the folder.");
    });
    return std::nullopt;
  }
  if (config_.checkpoint.resume == "auto") {
    const auto folder = find_resumable_checkpoint(root, passed_over, world_.control());
    if (!folder) return std::nullopt;
    return resume_point(read_checkpoint_state(*folder), *folder);
  }
  const std::string& folder = config_.checkpoint.resume;
  return resume_point(read_checkpoint_state(folder), folder);
}

std::optional<ResumePoint> Trainer::make_and_load() {
  std::set<std::string> passed_over;
  for (;;) {
    std::optional<ResumePoint> resumed = find_resume_point(passed_over);
    make_plan(resumed);
    make_model();
    if (!resumed) {
      start_from_model();
      return resumed;
    }
    if (load(*resumed)) return resumed;
    passed_over.insert(resumed->folder);
    communicator_watch_.reset();  // before the model
    clock_.reset();
    optimizer_.reset();
    model_.reset();
  }
}

void Trainer::start_from_model() {
  load_weights(source_, config_.run.seed, *model_, world_.control());
  due_.evaluation = config_.run.evaluate_at_start && !evaluations_->empty();
}

bool Trainer::load(const ResumePoint& resumed) {
  ReadCounts counts;
  const auto read = [&](std::span<const ShardView> shards) {
    counts = load_checkpoint(resumed.folder, shards, /*with_optimizer_state=*/true);
  };
  if (const auto failure = collective_read(*model_, world_.control(), read)) {
    if (!failure->is_damage || config_.checkpoint.resume != "auto") throw failure->error;
    if (world_.rank() == 0) log_warning("checkpoint passed over: {}", failure->error.message());
    return false;
  }
  model_->weights_changed();
  first_step_ = resumed.step;
  due_ = {resumed.evaluation_due && !evaluations_->empty(),
          resumed.samples_due && !config_.samples.steps.is_never()};
  log_info("resumed from {}: {} of {} steps done; read {:.2f} GiB of {} files", resumed.folder,
           first_step_, total_steps_, static_cast<double>(counts.num_bytes) / kGibibyte,
           counts.num_opens);
  return true;
}

}  // namespace packtrain
