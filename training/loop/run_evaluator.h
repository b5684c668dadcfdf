// Evaluations and samples between steps. Weights are saved before, so that no trained step is lost
// when these fail or are interrupted.
#pragma once

#include <cstdint>
#include <memory>

#include "framework/config/config.h"
#include "parallel/communicators/world.h"
#include "training/evaluation/samples.h"
#include "training/loop/checkpoint_saver.h"
#include "training/loop/evaluation_tracker.h"
#include "training/loop/planned_run.h"
#include "training/loop/run_guards.h"
#include "training/loop/run_inputs.h"
#include "training/loop/run_reporter.h"

namespace packtrain {

class RunEvaluator {
 public:
  // The run's folder must exist. All arguments must outlive the object.
  RunEvaluator(const Config& config, const RunInputs& inputs, const PlannedRun& run,
               EvaluationTracker& tracker, CheckpointSaver& saver, RunReporter& reporter,
               RunGuards& guards, World& world);

  // What the configuration asks for after these steps.
  DueEvaluations find_due(std::int64_t steps_done) const;
  // Does what the tracker has as due. Collective. Throws EvaluationStopped and EvaluationError;
  // what was not done is then still due.
  void run_due(std::int64_t steps_done);

 private:
  void evaluate(std::int64_t steps_done);
  void sample(std::int64_t steps_done);
  void start_samples(World& world);

  const Config& config_;
  const RunInputs& inputs_;
  const PlannedRun& run_;
  EvaluationTracker& tracker_;
  CheckpointSaver& saver_;
  RunReporter& reporter_;
  RunGuards& guards_;
  std::unique_ptr<Samples> samples_;  // or none
};

}  // namespace packtrain
