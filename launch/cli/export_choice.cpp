#include "launch/cli/export_choice.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "framework/core/error.h"
#include "framework/core/logging.h"
#include "training/checkpoint/checkpoint.h"
#include "training/checkpoint/retention.h"

namespace packtrain {
namespace {

struct Checkpoint {
  std::string folder;
  std::int64_t step = 0;
  std::optional<double> loss;  // on the validation set of the newest checkpoint that has a loss
};

// The usable checkpoints of a run, newest first.
std::vector<Checkpoint> usable_checkpoints(const std::string& run) {
  std::vector<Checkpoint> found;
  std::optional<std::string> set;
  for (const StoredFolder& stored : list_folders(checkpoints_folder(run))) {
    if (find_fault(stored)) continue;
    const TrainingState state = read_checkpoint_state(stored.path);
    if (state.validation_loss && !set) set = state.validation_set;
    const bool is_of_set = set == state.validation_set;
    found.push_back({stored.path, state.step, is_of_set ? state.validation_loss : std::nullopt});
  }
  return found;
}

// The checkpoint of the lowest validation loss, the newest of equals. Nothing where none has a
// loss.
std::optional<Checkpoint> best_of(const std::vector<Checkpoint>& checkpoints) {
  std::optional<Checkpoint> best;
  for (const Checkpoint& one : checkpoints) {
    if (one.loss && std::isfinite(*one.loss) && (!best || *one.loss < *best->loss)) best = one;
  }
  return best;
}

// The newest checkpoint has the lowest losses of the run, also those of deleted folders.
void warn_of_lost_best(const Checkpoint& chosen, const Checkpoint& newest) {
  const std::vector<double> lowest = read_checkpoint_state(newest.folder).best_losses;
  if (lowest.empty() || *chosen.loss <= lowest.front()) return;
  log_warning(
      "--best: step {} has the lowest loss of the checkpoints that are there ({:.6g}); the run has "
      "had {:.6g}, whose folder is gone or cannot be used",
      chosen.step, *chosen.loss, lowest.front());
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
  const auto checkpoints = usable_checkpoints(source);
  if (const auto best = best_of(checkpoints)) {
    warn_of_lost_best(*best, checkpoints.front());
    return best->folder;
  }
  throw Error(ErrorCategory::kCheckpoint,
              fmt::format("--best: no usable checkpoint of {} has a validation loss", source),
              "Only runs with data.validation know it; without --best the newest is exported.");
}

void log_best_checkpoint(const std::string& source) {
  if (is_checkpoint(source)) return;
  const auto checkpoints = usable_checkpoints(source);
  const auto best = best_of(checkpoints);
  if (!best || best->folder == checkpoints.front().folder) return;
  const Checkpoint& newest = checkpoints.front();
  const std::string loss =
      newest.loss ? fmt::format("validation loss {:.6g}", *newest.loss) : "no validation loss";
  log_warning("step {} is the newest ({}), step {} the best ({:.6g}): --best writes that one",
              newest.step, loss, best->step, *best->loss);
}

}  // namespace packtrain
