// The Trainer: the loop over a run's optimizer steps. Its members are the components of a run, in
// the order in which they depend on each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "framework/config/config.h"
#include "framework/metrics/metrics.h"
#include "parallel/communicators/world.h"
#include "training/evaluation/collective_evaluation.h"
#include "training/guards/replica_check.h"
#include "training/guards/step_guards.h"
#include "training/loop/checkpoint_saver.h"
#include "training/loop/evaluation_tracker.h"
#include "training/loop/launched_step.h"
#include "training/loop/out_of_memory_recovery.h"
#include "training/loop/planned_run.h"
#include "training/loop/run_evaluator.h"
#include "training/loop/run_guards.h"
#include "training/loop/run_inputs.h"
#include "training/loop/run_reporter.h"
#include "training/loop/step_executor.h"
#include "training/steps/batch_source.h"

namespace packtrain {

class Trainer {
 public:
  // Opens data, plans, builds the model, loads or resumes weights. Collective. `left_out`: steps
  // (numbers from 1) whose update is not applied. `config` and `world` must outlive the object.
  Trainer(const Config& config, World& world, std::set<std::int64_t> left_out);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  // Trains to the end. Throws Error(kStopped) when asked to stop (after saving). Throws
  // Error(kNonFinite) when a skipped step ends the run. Returns the number of a step that the run
  // must leave out when it resumes from its newest checkpoint.
  std::optional<std::int64_t> run();

  // Reports to watchers how the run ended, and the reason of a failure. With `waits` it returns
  // after they have read it.
  void end(RunState state, const std::string& reason, bool waits);

 private:
  std::unique_ptr<BatchSource> make_batches(std::int64_t first_step) const;
  // Begins or ends the trace when it is due. `number` counts steps of this process.
  void trace_before(std::int64_t number);
  void trace_after(std::int64_t number);
  void train_step(std::int64_t step);
  // The Hessian batches of the latest step, until they fit into memory. Afterwards no step is in
  // flight.
  void update_hessian();
  // Reads and reports the outcomes of the oldest steps, until this many are in flight.
  void finish_until(std::size_t num_in_flight);
  void finish(LaunchedStep& step);
  std::int64_t recover();  // returns the step to continue with
  // Lays the step that was discarded over more micro-batches, and prepares batches from that step
  // on, or from the one after it if `is_applied`. Returns that step.
  std::int64_t lay_out_again(bool is_applied);
  void evaluate_and_sample(std::int64_t steps_done);
  // Waits for commands on checkpoints, and reports what they printed. Collective.
  void finish_commands(bool stops);
  // Both save first.
  [[noreturn]] void stop(std::int64_t steps_done);
  [[noreturn]] void fail_evaluation(std::int64_t steps_done, const EvaluationError& error);

  const Config& config_;
  World& world_;
  RunGuards guards_;
  RunInputs inputs_;
  PlannedRun run_;
  EvaluationTracker tracker_;
  ReplicaCheck replicas_;
  StepGuards step_guards_;
  CheckpointSaver saver_;
  OutOfMemoryRecovery recovery_;
  StepExecutor executor_;
  RunReporter reporter_;
  RunEvaluator evaluator_;
  std::unique_ptr<BatchSource> batches_;
  std::deque<LaunchedStep> in_flight_;
};

}  // namespace packtrain
