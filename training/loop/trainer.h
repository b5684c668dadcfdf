// The Trainer owns the parts of a run and executes its steps.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "framework/config/config.h"
#include "framework/data/token_store.h"
#include "framework/metrics/metrics.h"
#include "parallel/communicators/world.h"
#include "training/evaluation/best_losses.h"
#include "training/evaluation/early_stopping.h"
#include "training/evaluation/evaluation_sets.h"
#include "training/evaluation/samples.h"
#include "training/guards/communicator_watch.h"
#include "training/guards/fault_injector.h"
#include "training/guards/replica_check.h"
#include "training/guards/step_guard.h"
#include "training/guards/stop_signal.h"
#include "training/guards/straggler_detector.h"
#include "training/guards/watchdog.h"
#include "training/plan/memory_report.h"
#include "training/plan/run_plan.h"
#include "training/saving/run_saver.h"
#include "training/setup/model_source.h"
#include "training/setup/run_device.h"
#include "training/steps/batch_source.h"
#include "training/steps/example_loss_log.h"
#include "training/steps/learning_rate.h"
#include "training/steps/optimizer.h"
#include "training/steps/step_graphs.h"
#include "training/steps/step_timer.h"
#include "training/steps/step_trace.h"

namespace packtrain {

class Trainer {
 public:
  // Opens data, plans, builds the model, loads or resumes weights. Collective. `left_out`: steps
  // (numbers from 1) whose update is not applied.
  Trainer(const Config& config, World& world, std::set<std::int64_t> left_out);
  ~Trainer();

  // Trains to the end. Throws Error(kStopped) when asked to stop (after saving). Throws
  // Error(kNonFinite) when a skipped step ends the run. Returns the number of a step that the run
  // must leave out when it resumes from its newest checkpoint.
  std::optional<std::int64_t> run();

  // Reports to watchers how the run ended, and the reason of a failure. With `waits` it returns
  // after they have read it.
  void end(RunState state, const std::string& reason, bool waits);

 private:
  // A step that was launched on the device and whose outcome has not been read yet.
  struct Pending {
    PreparedStep prepared;
    StepOutcome* outcome = nullptr;
    HostBuffer row_losses;  // for the example loss log
    at::Tensor loss;        // of this rank
    at::Tensor details;
    double learning_rate = 0;
    double data_wait_s = 0;
    WaitedTime waited;  // for communication
  };

  void open_data();
  // Ignores the folders in `passed_over`.
  std::optional<ResumePoint> find_resume_point(const std::set<std::string>& passed_over);
  void make_plan(const std::optional<ResumePoint>& resumed);
  void make_model();
  // Plans, makes the model, and loads its weights from the newest complete checkpoint.
  std::optional<ResumePoint> make_and_load();
  void start_from_model();
  // False when the checkpoint is damaged and an older one may be used.
  bool load(const ResumePoint& resumed);
  void start_evaluation_tracking(const std::optional<ResumePoint>& resumed);
  // Libraries time algorithms and build plans here, so that no step waits for it.
  void prepare_sizes();
  void make_graphs();
  void start_metrics();
  void log_memory_plan();

  // Begins or ends the trace when it is due. `number` counts steps of this process.
  void trace_before(std::int64_t number);
  void trace_after(std::int64_t number);
  bool is_save_due(std::int64_t done) const;
  bool is_evaluation_due(std::int64_t done) const;
  bool is_sample_due(std::int64_t done) const;
  void train_step(std::int64_t step);
  void add_memory_loads(std::span<const PackedBatch> batches);
  // Runs forward and backward and passes loss and gradients to the optimizer.
  void compute_step(std::int64_t step, Pending& pending);
  void compute_kernel_by_kernel(Pending& pending);
  void compute_by_graph(Pending& pending);
  std::int64_t num_sources() const { return std::ssize(train_store_->info().sources); }
  std::size_t num_source_sums() const;
  // Number of values that are summed over ranks with the loss: per source, then per expert.
  std::int64_t num_details() const;
  at::Tensor step_details(std::span<const DeviceBatch> batches);
  void finish_oldest();  // reads an outcome and reports it
  void finish_all();
  // This rank's requests to all ranks. Also accepts a request to save from a file in the run
  // folder.
  StepRequests requests();
  void update(std::int64_t step, Pending& pending);

  // Out of memory in a step (trainer_memory.cpp). Runs `work`; returns false when memory ran out.
  bool fits(const char* phase, const Pending& pending, const std::function<void()>& work);
  // From here until recover() this rank only joins the collectives of the others' steps. Throws
  // `error` when no other layout of the step needs less memory.
  void discard_step(const Pending& pending, const OutOfMemory& error);
  void refuse(Pending& pending);
  // Called once all ranks know of a discarded step. Lays it and later steps over more
  // micro-batches. Returns the step to resume at.
  std::int64_t recover();
  void make_batches(std::int64_t first_step);
  // trainer_metrics.cpp
  StepRecord make_record(const Pending& pending, const StepOutcome::Values& values);
  void add_plan(const PreparedStep& prepared, StepRecord& record) const;
  void add_times(const Pending& pending, StepRecord& record);
  void add_checkpoints(StepRecord& record);
  void add_memory(StepRecord& record);
  MetricsOptions metrics_options() const;
  void start_samples();

  // trainer_between_steps.cpp
  // Evaluations and samples that the current weights still need. Saved with the weights, so that a
  // resumed run catches up on them.
  struct Due {
    bool evaluation = false;
    bool samples = false;
    bool any() const { return evaluation || samples; }
  };
  // Does what is due after `steps_done` steps. Saves the weights before it stops the run or fails.
  void evaluate_and_sample(std::int64_t steps_done);
  void evaluate(std::int64_t steps_done);
  void keep_loss(std::int64_t steps_done, bool is_among_the_best);
  void sample(std::int64_t steps_done);
  TrainingState state(std::int64_t steps_done) const;
  void save(std::int64_t steps_done, bool is_last);
  // Returns when a complete checkpoint of these steps exists.
  void save_now(std::int64_t steps_done);
  [[noreturn]] void stop(std::int64_t steps_done);
  [[noreturn]] void fail_after_saving(std::int64_t steps_done, const EvaluationError& error);

  Config config_;
  World& world_;
  RunDevice device_;
  std::unique_ptr<Watchdog> watchdog_;
  std::unique_ptr<TokenStore> train_store_;
  std::unique_ptr<EvaluationSets> evaluations_;
  ModelSource source_;
  std::unique_ptr<MemoryReport> memory_;
  std::unique_ptr<RunPlan> plan_;
  std::unique_ptr<ShardedModel> model_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<StepGraphs> graphs_;  // or none
  std::unique_ptr<LearningRate> learning_rate_;
  std::unique_ptr<StepGuard> guard_;
  std::unique_ptr<BestLosses> best_;
  std::unique_ptr<EarlyStopping> early_stopping_;
  std::unique_ptr<StragglerDetector> stragglers_;
  std::unique_ptr<ReplicaCheck> replicas_;
  FaultInjector faults_;
  std::unique_ptr<Metrics> metrics_;
  std::unique_ptr<ExampleLossLog> loss_log_;  // or none
  std::unique_ptr<Samples> samples_;          // or none
  std::unique_ptr<BatchSource> batches_;
  std::unique_ptr<StepTrace> trace_;
  std::unique_ptr<RunSaver> saver_;
  StopSignal stop_signal_;
  std::int64_t first_step_ = 0;
  std::int64_t num_finished_ = 0;  // steps of this process
  std::int64_t total_steps_ = 0;
  int gather_slots_ = 0;  // resolved value of parallel.gather_slots
  Due due_;
  bool stop_agreed_ = false;
  bool save_agreed_ = false;
  double last_look_s_ = 0;                    // for a request to save
  std::optional<std::int64_t> rewound_;       // the step that caused the return to a checkpoint
  std::optional<OutOfMemory> out_of_memory_;  // of this rank
  std::optional<std::int64_t> dropped_;       // the first step that was discarded
  std::int64_t num_ranks_out_of_memory_ = 0;
  std::int64_t num_out_of_memory_ = 0;       // since the last record
  std::int64_t num_allocation_retries_ = 0;  // at the last record
  std::int64_t num_started_ = 0;             // steps of this process, discarded ones included
  std::array<std::unique_ptr<StepOutcome>, 2> outcomes_;  // used alternately: one may be in flight
  std::deque<Pending> pending_;
  std::unique_ptr<StepTimer> clock_;
  std::unique_ptr<CommunicatorWatch> communicator_watch_;  // last: destroyed before the model
};

}  // namespace packtrain
