#include "training/loop/trainer.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "framework/config/objective_settings.h"
#include "framework/core/error.h"
#include "framework/core/logging.h"
#include "framework/device/range_recorder.h"
#include "framework/device/trace_range.h"
#include "training/checkpoint/checkpoint.h"

namespace packtrain {
namespace {

constexpr std::chrono::seconds kLookAtCommandsEvery{1};
// For the end of a command that reaches its own limit.
constexpr std::chrono::seconds kCommandsEndWithin{10};

StepOutcome::Values read_outcome(StepOutcome& outcome) {
  const RangeScope range("wait for the outcome", {RangeKind::kThreadWait});
  return outcome.read();
}

}  // namespace

Trainer::Trainer(const Config& config, World& world, std::set<std::int64_t> left_out)
    : config_(config),
      world_(world),
      guards_(config, world),
      inputs_(open_inputs(config, world, guards_.faults.collectives())),
      run_(plan_and_load(config, inputs_, guards_.faults, world)),
      tracker_(config, *inputs_.evaluations, run_.resumed),
      replicas_(*run_.model, *inputs_.device.device, config.guard.check_replicas_steps,
                config.run.seed),
      step_guards_(config.guard, inputs_.adapter_names(), run_.plan->num_steps(), left_out,
                   run_.resumed ? run_.resumed->guard : ""),
      saver_(config, inputs_, run_, tracker_, step_guards_, replicas_, guards_, world),
      recovery_(config, *inputs_.stores.all, *run_.plan, *inputs_.device.device, world),
      executor_(config, inputs_, run_, recovery_, world),
      reporter_(config, inputs_, run_, tracker_, guards_.watchdog, saver_.writer(), world),
      evaluator_(config, inputs_, run_, tracker_, saver_, reporter_, guards_, world),
      batches_(make_batches(run_.first_step())) {}

// Metrics are served until a save in flight is complete. A signal may interrupt that save.
Trainer::~Trainer() {
  run_.communicator_watch.reset();
  guards_.requests.restore_signals();
  saver_.writer().wait();
}

std::optional<std::int64_t> Trainer::run() {
  const std::int64_t total_steps = run_.total_steps();
  evaluate_and_sample(run_.first_step());  // due before training, or left over by the checkpoint
  executor_.timer().restart();
  std::int64_t num_started = 0;  // steps of this process, discarded ones included
  for (std::int64_t step = run_.first_step(); step < total_steps && !tracker_.ends_run(); ++step) {
    trace_before(++num_started);
    train_step(step);
    trace_after(num_started);
    if (step_guards_.rewind_step()) {
      finish_until(0);
      return step_guards_.rewind_step();
    }
    const std::int64_t done = step + 1;
    const bool save_due = saver_.is_due(done);
    tracker_.set_due(evaluator_.find_due(done));
    if (save_due || tracker_.due().any() || guards_.requests.stop_agreed()) finish_until(0);
    if (recovery_.is_needed()) {
      tracker_.set_due({});
      step = recover() - 1;
      continue;
    }
    if (guards_.requests.stop_agreed()) stop(done);
    if (save_due) saver_.save(done, done == total_steps);
    evaluate_and_sample(done);
  }
  if (tracker_.ends_run()) log_info("ended early: {}", tracker_.describe_end());
  saver_.writer().finish();
  finish_commands(/*stops=*/false);
  guards_.faults.maybe_inject(FaultPhase::kShutdown);
  return std::nullopt;
}

void Trainer::trace_before(std::int64_t number) {
  if (!reporter_.trace().begins_at(number)) return;
  finish_until(0);
  reporter_.trace().begin();
  executor_.timer().restart();
}

void Trainer::trace_after(std::int64_t number) {
  if (!reporter_.trace().ends_at(number)) return;
  finish_until(0);
  reporter_.trace().end();
  executor_.timer().restart();
}

void Trainer::train_step(std::int64_t step) {
  const std::int64_t number = step + 1;
  ShardedModel& model = *run_.model;
  set_log_position(step, "train");
  const TraceRange range(fmt::format("step {}", number));
  guards_.faults.maybe_inject(FaultPhase::kStep, number);
  LaunchedStep launched{.prepared = batches_->next(),
                        .data_wait_s = batches_->take_wait_s(),
                        .learning_rates = run_.learning_rates_at(step)};
  reporter_.add_batches(launched.prepared.micro_batches);
  guards_.faults.before_compute(number, launched.prepared.micro_batches.size(), model);
  executor_.compute(launched, reporter_.loss_log());
  guards_.faults.before_update(number, model);
  replicas_.begin(number, launched.learning_rates.front());
  saver_.before_update(number);
  StepRequests requests = guards_.requests.poll();
  requests.out_of_memory = recovery_.is_discarding();
  executor_.update(launched, requests, step_guards_.bounds(number));
  in_flight_.push_back(std::move(launched));
  if (in_flight_.back().prepared.hessian) return update_hessian();
  // Each outcome is read one step late, so that the GPU always has work.
  finish_until(inputs_.device.device->kind() == DeviceKind::kCuda ? 1 : 0);
}

// The host waits, once in optimizer.hessian_every steps. The next step begins with the estimate
// complete, or is not begun.
void Trainer::update_hessian() {
  LaunchedStep& launched = in_flight_.back();
  const std::int64_t step = launched.prepared.plan.step;
  std::optional<HessianBatches> hessian = std::move(launched.prepared.hessian);
  launched.prepared.hessian.reset();
  reporter_.add_batches(hessian->micro_batches);
  guards_.faults.before_hessian(step + 1, hessian->micro_batches.size(), *run_.model);
  executor_.update_hessian(*hessian, launched);
  finish_until(1);
  const bool is_discarded =
      recovery_.is_needed() || launched.outcome->read().requests.out_of_memory;
  bool is_repeated = false;
  while (!is_discarded && recovery_.is_discarded(hessian->plan, *launched.hessian)) {
    is_repeated = true;
    lay_out_again(/*is_applied=*/true);
    hessian = batches_->hessian_of(step);
    executor_.update_hessian(*hessian, launched);
  }
  finish_until(0);
  if (is_repeated) executor_.timer().restart();
}

void Trainer::finish_until(std::size_t num_in_flight) {
  while (in_flight_.size() > num_in_flight) {
    LaunchedStep oldest = std::move(in_flight_.front());
    in_flight_.pop_front();
    finish(oldest);
    batches_->recycle(std::move(oldest.prepared));
  }
}

void Trainer::finish(LaunchedStep& step) {
  const StepOutcome::Values values = read_outcome(*step.outcome);
  const std::int64_t number = step.prepared.plan.step + 1;
  replicas_.judge(number);
  const bool discarded = recovery_.is_discarded(step.prepared.plan, values);
  guards_.requests.agree(values.requests, discarded);
  const StepTimes times = executor_.timer().take_step();
  if (discarded) return;
  // Also a step that ends the run is reported.
  reporter_.step(step, values, times, recovery_.take_num_recoveries());
  step_guards_.judge(number, values);
  reporter_.accept(step);
  guards_.watchdog.enter(RunPhase::kStep, number + 1);
}

std::int64_t Trainer::lay_out_again(bool is_applied) {
  executor_.release_graphs();
  batches_.reset();  // prepared for the old layout
  const std::int64_t step = recovery_.lower_budget(is_applied) + (is_applied ? 1 : 0);
  run_.model->operator_options().recomputes_as_largest = true;  // smaller ones need less memory
  batches_ = make_batches(step);
  return step;
}

std::int64_t Trainer::recover() {
  finish_until(0);
  const std::int64_t step = lay_out_again(/*is_applied=*/false);
  guards_.watchdog.enter(RunPhase::kStep, step + 1);
  executor_.timer().restart();
  return step;
}

std::unique_ptr<BatchSource> Trainer::make_batches(std::int64_t first_step) const {
  const PlanLayout& layout = run_.plan->layout();
  const TokenStore& store = *inputs_.stores.all;
  const auto& adapter = inputs_.source.decoder.adapter;
  const bool drops = adapter != nullptr && adapter->drops();
  const BatchSourceOptions options{
      .rank = run_.plan->mesh().data_parallel_rank(),
      .normalize = config_.batch.normalize,
      .max_tokens_per_micro_batch = layout.max_tokens_per_micro_batch,
      .cost = layout.cost,
      .sources = store.info().sources.size() > 1 && !inputs_.has_several_adapters(),
      .speeds = layout.speeds,
      .dropout_seed = drops ? std::optional(config_.run.seed) : std::nullopt,
      .reference = run_.log_probs.get(),
      .mismatched_seed =
          has_divergence(config_.objective) ? std::optional(config_.run.seed) : std::nullopt,
      .max_length = config_.data.max_length,
      .hessian = hessian_settings(config_)};
  return std::make_unique<BatchSource>(store, run_.plan->planner(), *inputs_.device.device, options,
                                       first_step, run_.total_steps());
}

void Trainer::evaluate_and_sample(std::int64_t steps_done) {
  if (!tracker_.due().any()) return;
  try {
    evaluator_.run_due(steps_done);
  } catch (const EvaluationStopped&) {
    stop(steps_done);
  } catch (const EvaluationError& error) {
    fail_evaluation(steps_done, error);
  }
  executor_.timer().restart();
}

// Ranks look together once a second, so that the watchdogs of all see progress. A first request to
// stop ends the wait; of a run that stops already, the next signal ends the process.
void Trainer::finish_commands(bool stops) {
  if (!CheckpointCommands::are_wanted(config_)) return;
  const std::int64_t newest = saver_.writer().newest();
  const std::chrono::duration<double> limit(config_.run.command_timeout_s);
  const auto begin = std::chrono::steady_clock::now();
  bool told = false;
  for (std::int64_t left = 1; left != 0;) {
    guards_.watchdog.enter(RunPhase::kCheckpoint, newest);
    if (world_.rank() == 0) {
      left = saver_.writer().wait_for_commands(kLookAtCommandsEvery, stops) ? 0 : 1;
      reporter_.commands();
      if (std::chrono::steady_clock::now() - begin > limit + kCommandsEndWithin) left = 0;
      if (!stops && guards_.requests.stop_requested()) left = 0;
      if (left != 0 && !std::exchange(told, true)) {
        log_info("waiting for commands on checkpoints, {:g} s at most (run.command_timeout_s)",
                 limit.count());
      }
    }
    world_.control().broadcast(&left, sizeof left, 0, nullptr);
  }
  saver_.writer().end_commands();
}

void Trainer::stop(std::int64_t steps_done) {
  if (steps_done == 0) {
    throw Error(ErrorCategory::kStopped, "stopped on request before the first step",
                "The same command begins again.");
  }
  reporter_.trace().end();
  saver_.save_now(steps_done);
  finish_commands(/*stops=*/true);
  throw Error(ErrorCategory::kStopped,
              fmt::format("stopped on request after step {} of {}; saved in {}/step-{}: no step is "
                          "lost",
                          steps_done, run_.total_steps(), checkpoints_folder(config_.run.output),
                          steps_done),
              "The same command continues from there.");
}

void Trainer::fail_evaluation(std::int64_t steps_done, const EvaluationError& error) {
  const char* what = tracker_.due().evaluation ? "the evaluation" : "the writing of samples";
  if (steps_done == 0) {
    throw Error(error.category(),
                fmt::format("{} before the first step failed: {}", what, error.message()),
                error.advice());
  }
  log_warning("{} after step {} failed: {}", what, steps_done, error.message());
  reporter_.trace().end();
  saver_.save_now(steps_done);
  const std::string advice = error.advice().empty() ? "Repair what it names." : error.advice();
  throw Error(
      error.category(),
      fmt::format("{} after step {} of {} failed: {}. Nothing that was trained is lost: "
                  "step {} is saved in {}",
                  what, steps_done, run_.total_steps(), error.message(), steps_done,
                  checkpoints_folder(config_.run.output)),
      fmt::format("{} Then the same command resumes from there, with {} first.", advice, what));
}

void Trainer::end(RunState state, const std::string& reason, bool waits) {
  reporter_.end(state, reason, waits);
}

}  // namespace packtrain
