// What evaluations found: the best losses, and whether the run ends early. Also which evaluations
// and samples the current weights still need. All of it is saved with the weights.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "framework/config/config.h"
#include "training/checkpoint/training_state.h"
#include "training/evaluation/best_losses.h"
#include "training/evaluation/early_stopping.h"
#include "training/evaluation/evaluation_sets.h"
#include "training/plan/run_plan.h"

namespace packtrain {

// Due for the current weights. A resumed run catches up on what its checkpoint left over.
struct DueEvaluations {
  bool evaluation = false;
  bool samples = false;
  bool any() const { return evaluation || samples; }
};

class EvaluationTracker {
 public:
  // Continues what the checkpoint has, if there is one. `sets` must outlive the object.
  EvaluationTracker(const Config& config, const EvaluationSets& sets,
                    const std::optional<ResumePoint>& resumed);

  const DueEvaluations& due() const { return due_; }
  void set_due(const DueEvaluations& due) { due_ = due; }
  void finish_evaluation() { due_.evaluation = false; }
  void finish_samples() { due_.samples = false; }
  // Adds a validation loss of the deciding set. True when it is among the best of the run. Samples
  // become due when the run ends early by it.
  bool add(std::int64_t steps_done, double loss);
  bool ends_run() const { return early_stopping_->is_over(); }
  std::string describe_end() const { return early_stopping_->describe(); }
  void add_to(TrainingState& state) const;

 private:
  const EvaluationSets& sets_;
  std::optional<BestLosses> best_;
  std::optional<EarlyStopping> early_stopping_;
  bool has_samples_;
  DueEvaluations due_;
};

}  // namespace packtrain
