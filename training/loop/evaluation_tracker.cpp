#include "training/loop/evaluation_tracker.h"

#include <vector>

#include "framework/core/logging.h"

namespace packtrain {

// Losses of another evaluation set cannot be compared with this one's.
EvaluationTracker::EvaluationTracker(const Config& config, const EvaluationSets& sets,
                                     const std::optional<ResumePoint>& resumed)
    : sets_(sets), has_samples_(!config.samples.steps.is_never()) {
  const bool goes_on = resumed && resumed->validation_set == sets.deciding();
  const bool matters = config.checkpoint.keep_best > 0 || config.run.early_stopping_patience > 0;
  if (resumed && !goes_on && matters) {
    log_warning(
        "checkpoint.keep_best and run.early_stopping_patience start over: {} went by "
        "evaluation set '{}', this run goes by '{}'",
        resumed->folder, resumed->validation_set, sets.deciding());
  }
  best_.emplace(config.checkpoint.keep_best,
                goes_on ? resumed->best_losses : std::vector<double>());
  early_stopping_.emplace(config.run.early_stopping_patience, config.run.early_stopping_min_delta,
                          goes_on ? resumed->early_stopping : "");
  if (resumed) {
    due_ = {.evaluation = resumed->evaluation_due && !sets.empty(),
            .samples = resumed->samples_due && has_samples_};
  } else {
    due_.evaluation = config.run.evaluate_at_start && !sets.empty();
  }
}

bool EvaluationTracker::add(std::int64_t steps_done, double loss) {
  early_stopping_->add(steps_done, loss);
  if (ends_run() && has_samples_) due_.samples = true;
  return best_->add(steps_done, loss);
}

void EvaluationTracker::add_to(TrainingState& state) const {
  state.validation_loss = best_->after(state.step);
  state.best_losses = best_->lowest();
  state.validation_set = sets_.deciding();
  if (!sets_.empty()) state.early_stopping = early_stopping_->state();
  state.evaluation_due = due_.evaluation;
  state.samples_due = due_.samples;
}

}  // namespace packtrain
