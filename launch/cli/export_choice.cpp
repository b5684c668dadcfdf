#include "launch/cli/export_choice.h"

#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <vector>

#include "framework/core/error.h"
#include "framework/core/logging.h"
#include "training/checkpoint/checkpoint.h"
#include "training/checkpoint/retention.h"

namespace packtrain {
namespace {

// The newest checkpoint has the lowest losses of the run, also those of deleted folders.
void warn_of_lost_best(const CheckpointLoss& chosen, const std::string& newest) {
  const std::vector<double> lowest = read_checkpoint_state(newest).best_losses;
  if (lowest.empty() || chosen.loss <= lowest.front()) return;
  log_warning(
      "--best: step {} has the lowest loss of the checkpoints that are there ({:.6g}); the run has "
      "had {:.6g}, whose folder is gone or cannot be used",
      chosen.step, chosen.loss, lowest.front());
}

}  // namespace

std::string newest_checkpoint(const std::string& source) {
  if (is_checkpoint(source)) return source;
  if (const auto newest = find_latest_checkpoint(checkpoints_folder(source))) return *newest;
  throw Error(
      ErrorCategory::kCheckpoint,
      fmt::format("{}: got {}, wanted a checkpoint (with its manifest) or a run folder (with "
                  "checkpoints/step-N)",
                  source,
                  std::filesystem::exists(source) ? "a folder without a usable checkpoint"
                                                  : "a path that does not exist"),
      "Give the run.output folder of a run that saved one.");
}

std::string best_checkpoint(const std::string& source) {
  if (is_checkpoint(source)) {
    throw Error(ErrorCategory::kConfig, fmt::format("--best: {} is one checkpoint", source),
                "Give the run's folder, or leave out --best.");
  }
  if (const auto best = find_best_checkpoint(checkpoints_folder(source))) {
    warn_of_lost_best(*best, newest_checkpoint(source));
    return best->path;
  }
  throw Error(ErrorCategory::kCheckpoint,
              fmt::format("--best: no usable checkpoint of {} has a validation loss", source),
              "Only runs with data.validation know it; without --best the newest is exported.");
}

void log_best_checkpoint(const std::string& source) {
  if (is_checkpoint(source)) return;
  const auto best = find_best_checkpoint(checkpoints_folder(source));
  if (!best) return;
  const std::string newest = newest_checkpoint(source);
  if (best->path == newest) return;
  const TrainingState state = read_checkpoint_state(newest);
  const std::string loss = state.validation_loss
                               ? fmt::format("validation loss {:.6g}", *state.validation_loss)
                               : "no validation loss";
  log_warning("step {} is the newest ({}), step {} the best ({:.6g}): --best writes that one",
              state.step, loss, best->step, best->loss);
}

}  // namespace packtrain
