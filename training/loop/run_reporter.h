// Reports a run: planned memory, the step line, metrics.jsonl, Prometheus, the example loss log,
// and the trace of some steps.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "collators/packed_batch.h"
#include "framework/config/config.h"
#include "framework/metrics/metrics.h"
#include "parallel/communicators/world.h"
#include "training/guards/straggler_detector.h"
#include "training/guards/watchdog.h"
#include "training/loop/evaluation_tracker.h"
#include "training/loop/follower.h"
#include "training/loop/launched_step.h"
#include "training/loop/planned_run.h"
#include "training/loop/run_inputs.h"
#include "training/saving/run_saver.h"
#include "training/steps/example_loss_log.h"
#include "training/steps/step_details.h"
#include "training/steps/step_timer.h"
#include "training/steps/step_trace.h"

namespace packtrain {

class RunReporter {
 public:
  // Logs the planned memory, writes the run's files and opens those of metrics. Collective. All
  // arguments must outlive the object.
  RunReporter(const Config& config, const RunInputs& inputs, const PlannedRun& run,
              const EvaluationTracker& tracker, const Watchdog& watchdog, RunSaver& saver,
              World& world);

  // Micro-batches that the device is given. Their memory is compared with the plan.
  void add_batches(std::span<const PackedBatch> micro_batches);
  // A step whose outcome was read. `num_out_of_memory`: steps discarded since the last one.
  void step(const LaunchedStep& step, const StepOutcome::Values& values, const StepTimes& times,
            std::int64_t num_out_of_memory);
  // Writes the losses of the step's examples, once the step is accepted.
  void accept(LaunchedStep& step);
  void evaluation(const EvaluationRecord& record) { metrics_->evaluation(record); }
  void commands();  // what commands printed since the last call
  // Reports how the run ended, and the reason of a failure. With `waits` it returns after watchers
  // have read it.
  void end(RunState state, const std::string& reason, bool waits);

  ExampleLossLog* loss_log() { return loss_log_.get(); }  // or none
  StepTrace& trace() { return *trace_; }

 private:
  void log_memory_plan();
  void start_metrics(bool evaluates_again, const Watchdog& watchdog);
  MetricsOptions metrics_options(const Watchdog& watchdog) const;
  void add_adapters(const LaunchedStep& step, const StepOutcome::Values& values,
                    StepRecord& record) const;
  void add_plan(const PreparedStep& prepared, StepRecord& record) const;
  void add_times(const LaunchedStep& step, const StepTimes& times, StepRecord& record);
  void add_checkpoints(StepRecord& record);
  void add_memory(StepRecord& record);

  const Config& config_;
  const RunInputs& inputs_;
  const PlannedRun& run_;
  RunSaver& saver_;
  World& world_;
  StepDetails details_;
  StragglerDetector stragglers_;
  std::unique_ptr<ExampleLossLog> loss_log_;  // or none
  std::unique_ptr<Metrics> metrics_;
  std::optional<Follower> follower_;  // of rank 0
  std::optional<StepTrace> trace_;
  std::int64_t num_accepted_ = 0;            // steps of this process
  std::int64_t num_allocation_retries_ = 0;  // at the last record
};

}  // namespace packtrain
