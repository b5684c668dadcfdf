// Sets up a Trainer: data, plan, model, weights, metrics, in this order.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>

#include "framework/core/error.h"
#include "framework/core/logging.h"
#include "models/ops/experts/grouped_matmul.h"
#include "training/loop/trainer.h"
#include "training/plan/cost_measurement.h"
#include "training/plan/gather_slots.h"
#include "training/plan/plan_continuation.h"
#include "training/plan/token_budget.h"
#include "training/saving/resumed_settings.h"
#include "training/saving/run_folder.h"
#include "training/setup/training_store.h"
#include "training/setup/validation_overlap.h"
#include "training/steps/due_steps.h"
#include "training/steps/expert_load.h"
#include "training/steps/rehearsal.h"

namespace packtrain {
Trainer::Trainer(const Config& config, World& world, std::set<std::int64_t> left_out)
    : config_(config), world_(world), faults_(config.fault, world.rank()) {
  set_log_position(0, "start");
  // Before any file is opened, because files may hang.
  watchdog_ = std::make_unique<Watchdog>(config_.guard, config_.run.output, world_);
  open_data();
  source_ = find_model(config_.model);
  check_vocabulary(train_store_->folder(), train_store_->info().vocab_size, source_.decoder);
  device_ = choose_device(config_, world_);
  memory_ = std::make_unique<MemoryReport>(config_, source_.decoder, *device_.device, world_);
  const std::optional<ResumePoint> resumed = make_and_load();
  faults_.maybe_inject(FaultPhase::kLoad);
  saver_ = std::make_unique<RunSaver>(config_, world_, *device_.device, *model_,
                                      resumed ? resumed->step : -1);
  start_evaluation_tracking(resumed);
  stragglers_ =
      std::make_unique<StragglerDetector>(config_.guard.straggler_ratio, world_.control());
  if (next_due(config_.checkpoint.save_steps, first_step_, total_steps_, plan_->planner()) <
      total_steps_) {
    saver_->prepare();
  }
  replicas_ = std::make_unique<ReplicaCheck>(*model_, *device_.device,
                                             config_.guard.check_replicas_steps, config_.run.seed);
  guard_ = std::make_unique<StepGuard>(config_.guard, std::move(left_out),
                                       resumed ? resumed->guard : "");
  if (plan_->wants_measured_cost()) {
    MeasuredCost measured =
        measure_cost(*plan_, *train_store_, first_step_, *model_, *device_.device, world_);
    plan_->set_measured_cost(measured.cost, std::move(measured.speeds));
  }
  prepare_sizes();
  make_graphs();
  log_memory_plan();
  start_metrics();
  start_samples();
  make_batches(first_step_);
  // A graph would capture the calls that record times.
  if (graphs_ == nullptr) {
    model_->watch_compute([this](ActionKind kind) {
      clock_->enter(kind == ActionKind::kForward ? StepPhase::kForward : StepPhase::kBackward);
    });
  }
  trace_ =
      std::make_unique<StepTrace>(config_.run, total_steps_ - first_step_, *device_.device, world_);
}

void Trainer::make_batches(std::int64_t first_step) {
  const BatchSourceOptions options{plan_->mesh().data_parallel_rank(),
                                   config_.batch.normalize,
                                   plan_->layout().max_tokens_per_micro_batch,
                                   plan_->layout().cost,
                                   num_sources() > 1,
                                   plan_->layout().speeds};
  batches_ = std::make_unique<BatchSource>(*train_store_, plan_->planner(), *device_.device,
                                           options, first_step, total_steps_);
}

void Trainer::open_data() {
  train_store_ = open_training_store(config_.data);
  evaluations_ =
      std::make_unique<EvaluationSets>(config_.data.validation, config_.checkpoint.best_by);
  if (world_.rank() != 0) return;
  evaluations_->for_each([this](const std::string& name, const TokenStore& store) {
    warn_of_overlap(*train_store_, name, store);
  });
}

// Losses of another evaluation set cannot be compared with this one's.
void Trainer::start_evaluation_tracking(const std::optional<ResumePoint>& resumed) {
  const bool goes_on = resumed && resumed->validation_set == evaluations_->deciding();
  const bool matters = config_.checkpoint.keep_best > 0 || config_.run.early_stopping_patience > 0;
  if (resumed && !goes_on && matters) {
    log_warning(
        "checkpoint.keep_best and run.early_stopping_patience begin anew: {} went by "
        "evaluation set '{}', this run goes by '{}'",
        resumed->folder, resumed->validation_set, evaluations_->deciding());
  }
  best_ = std::make_unique<BestLosses>(config_.checkpoint.keep_best,
                                       goes_on ? resumed->best_losses : std::vector<double>());
  early_stopping_ = std::make_unique<EarlyStopping>(config_.run.early_stopping_patience,
                                                    config_.run.early_stopping_min_delta,
                                                    goes_on ? resumed->early_stopping : "");
}

void Trainer::make_plan(const std::optional<ResumePoint>& resumed) {
  plan_ = std::make_unique<RunPlan>(config_, source_.decoder, *train_store_, resumed,
                                    *device_.device, world_);
  total_steps_ = plan_->total_steps();
  if (resumed && resumed->step > total_steps_) {
    throw Error(ErrorCategory::kCheckpoint,
                fmt::format("{} was saved after step {}, this run has only {} steps",
                            resumed->folder, resumed->step, total_steps_),
                "Raise run.num_epochs or run.max_steps, or give this run its own run.output.");
  }
  if (resumed) {
    const CurrentSettings present{config_, plan_->header().settings, source_.config_json,
                                  total_steps_};
    check_model_size(*resumed, present.model_config);
    check_changes(changed_settings(*resumed, present), config_.checkpoint.allow_changed,
                  resumed->folder);
    check_continuation(plan_->continuation(), config_.checkpoint, resumed->folder, world_.rank());
  }
  learning_rate_ = std::make_unique<LearningRate>(config_.optimizer.learning_rate, config_.schedule,
                                                  total_steps_, plan_->schedule_from());
  const SelectionCounts& losses = plan_->planner().losses();
  log_info(
      "{}; {} examples; left out: {} empty, {} without "
      "supervised tokens, {} cut before any, {} too long; {} truncated, {} split",
      describe_length(config_.run, plan_->planner()), train_store_->info().num_examples,
      losses.empty_examples, losses.masked_examples, losses.truncated_to_empty_examples,
      losses.dropped_examples, losses.truncated_examples, losses.split_examples);
  const std::string beyond =
      exceeds_max_positions(*train_store_, config_.data, source_.decoder.max_positions);
  if (!beyond.empty()) log_warning("{}\n  {}", beyond, kExceedsMaxPositionsAdvice);
  const std::string cut = truncated_to_empty(losses, *train_store_, config_.data);
  if (!cut.empty()) log_warning("{}\n  {}", cut, kTruncatedToEmptyAdvice);
  if (const auto num_bad = train_store_->info().num_bad_lines; num_bad > 0) {
    log_info("{} bad lines were left out when the stores were made: their bad-lines.jsonl",
             num_bad);
  }
}

// Requires the run's folder.
void Trainer::start_samples() {
  if (config_.samples.steps.is_never()) return;
  const GenerationOptions options{.samples = config_.samples,
                                  .seed = config_.run.seed,
                                  .vocab_size = source_.decoder.vocab_size,
                                  .max_tokens_per_micro_batch = plan_->first_budget(),
                                  .stop_requested = [this] { return stop_signal_.requested(); }};
  const auto ends = end_tokens(source_.config_json);
  std::vector<Prompt> prompts;
  const auto add = [&](const std::string& set, const TokenStore& store) {
    std::ranges::move(
        choose_prompts(store, set, config_.samples, options.max_tokens_per_micro_batch, ends),
        std::back_inserter(prompts));
  };
  evaluations_->for_each(add);
  if (evaluations_->empty()) add("", *train_store_);
  const std::int64_t written = due_.samples ? first_step_ - 1 : first_step_;
  samples_ = std::make_unique<Samples>(std::move(prompts), options, config_.run.output, written,
                                       *device_.device, world_);
}

std::size_t Trainer::num_source_sums() const {
  return num_sources() > 1 ? 2 * static_cast<std::size_t>(num_sources()) : 0;
}

std::int64_t Trainer::num_details() const {
  return static_cast<std::int64_t>(num_source_sums()) + num_load_numbers(source_.decoder);
}

void Trainer::make_model() {
  Config config = config_;
  config.parallel.shard_size = plan_->mesh().shard.size;
  config.parallel.gather_slots = gather_slots_ =
      gather_slots(config, source_.decoder, plan_->first_budget(), *device_.device, world_);
  model_ = make_sharded_model(config, source_.decoder, device_, world_);
  communicator_watch_ =
      std::make_unique<CommunicatorWatch>([this] { model_->poll_errors(); }, world_.rank());
  require_trainable(*model_);
  optimizer_ = std::make_unique<Optimizer>(*model_, config_.optimizer, config_.run.seed);
  clock_ = std::make_unique<StepTimer>(*device_.device, model_->compute());
  for (auto& outcome : outcomes_) {
    outcome = std::make_unique<StepOutcome>(*device_.device, num_details());
  }
  evaluations_->prepare(source_.decoder, plan_->first_budget(), *device_.device, world_,
                        plan_->mesh());
}

void Trainer::log_memory_plan() {
  if (first_step_ >= total_steps_) return;
  const StepPlan first = plan_->planner().plan(first_step_);
  const auto has_several = [](const auto& micro_batches) { return micro_batches.size() > 1; };
  memory_->log_plan(
      {.num_rows = std::min(plan_->layout().max_tokens_per_micro_batch,
                            max_useful_tokens(config_, plan_->mesh().data_parallel_size())),
       .several_micro_batches = std::ranges::any_of(first.ranks, has_several)},
      plan_->mesh(), gather_slots_);
}

// On the CPU nothing depends on sizes. Deterministic runs use the heuristic's choice.
void Trainer::prepare_sizes() {
  if (device_.device->kind() == DeviceKind::kCpu || config_.precision.deterministic) return;
  SizeOptions options;
  options.vocab_size = source_.decoder.vocab_size;
  options.hidden_size = source_.decoder.hidden_size;
  options.element_bytes = config_.precision.compute == Precision::kFloat32 ? 4 : 2;
  options.narrow_gradients = config_.precision.reduce != Precision::kFloat32;
  options.grads_in_place = model_->slots().grads_in_place;
  const RehearsalPlan plan =
      plan_rehearsals(plan_->planner(), *train_store_, first_step_, total_steps_, options);
  if (plan.rehearsals.empty()) return;
  prepare_attention_of(source_.decoder, config_.precision.compute, plan.largest_num_rows,
                       *device_.device);
  const std::size_t num_run =
      rehearse(plan, config_.batch.strategy, *train_store_, *model_, *device_.device, world_);
  for (const Rehearsal& run : std::span(plan.rehearsals).first(num_run)) {
    memory_->add({.num_rows = run.sizes.num_rows,
                  .num_supervised_rows = run.sizes.num_supervised_rows,
                  .num_sequences = run.sizes.num_sequences,
                  .largest_num_rows = plan.largest_num_rows,
                  .several_micro_batches = run.accumulated});
  }
}

void Trainer::make_graphs() {
  const bool wanted = should_use_graphs(config_.run.cuda_graphs, source_.decoder,
                                        plan_->layout().max_tokens_per_micro_batch);
  if (!wanted) return;
  const bool possible = device_.device->kind() == DeviceKind::kCuda && world_.size() == 1 &&
                        all_attention_is(AttentionBackend::kCudnn, source_.decoder,
                                         config_.precision.compute, *device_.device) &&
                        graphs_support(source_.decoder, grouped_gemm_sizes_stay_on_device()) &&
                        !config_.metrics.example_losses && num_sources() <= 1 &&
                        config_.run.trace_steps == 0;
  if (possible) {
    graphs_ = std::make_unique<StepGraphs>(*model_, *device_.device);
  } else if (config_.run.cuda_graphs == CudaGraphs::kOn) {
    throw Error(ErrorCategory::kConfig,
                "run.cuda_graphs is on, but graphs serve one rank on a GPU with cuDNN's attention "
                "(bf16, not deterministic), on Hopper where the model has experts, one source of "
                "data, without metrics.example_losses and run.trace_steps",
                "Set run.cuda_graphs to auto, or change what is in the way.");
  }
}

}  // namespace packtrain
