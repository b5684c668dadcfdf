// How a Trainer comes to be: data, plan, model, weights, metrics, in this order.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <span>

#include "framework/checkpoint/checkpoint.h"
#include "framework/support/error.h"
#include "framework/support/logging.h"
#include "framework/training/cost_measurement.h"
#include "framework/training/expert_load.h"
#include "framework/training/rehearsal.h"
#include "framework/training/run_folder.h"
#include "framework/training/token_budget.h"
#include "framework/training/trainer.h"
#include "framework/training/training_store.h"

namespace packtrain {
namespace {

constexpr std::size_t kEndpointBytes = 128;

// Every rank's text (at most kEndpointBytes - 1 characters), on every rank.
std::vector<std::string> all_texts(World& world, const std::string& text) {
  std::array<char, kEndpointBytes> mine{};
  std::memcpy(mine.data(), text.data(), std::min(text.size(), kEndpointBytes - 1));
  std::vector<char> all(kEndpointBytes * world.size());
  world.control().all_gather(mine.data(), all.data(), kEndpointBytes, DataType::kUInt8, nullptr);
  std::vector<std::string> texts;
  for (int rank = 0; rank < world.size(); ++rank) texts.emplace_back(&all[rank * kEndpointBytes]);
  return texts;
}

// The step of rank 0's answer, so that no rank sees a checkpoint that another does not.
std::int64_t agreed(World& world, std::int64_t value) {
  world.control().broadcast(&value, sizeof(value), 0, nullptr);
  return value;
}

// Checkpoints without a plan header say at least which data and seed they belong to.
ResumePoint resume_point(const TrainingState& state, const std::string& folder) {
  ResumePoint point{state.step, {}, folder, state.guard};
  if (!state.plan_header.empty()) {
    point.header = parse_plan_header(state.plan_header, folder);
  } else {
    point.header.settings = {{"data.train", data_setting(state.data_fingerprint)},
                             {"run.seed", std::to_string(state.seed)}};
  }
  return point;
}

}  // namespace

Trainer::Trainer(const Config& config, World& world, std::set<std::int64_t> left_out)
    : config_(config), world_(world), faults_(config.fault, world.rank()) {
  set_log_position(0, "start");
  open_data();
  source_ = find_model(config_.model);
  check_vocabulary(train_store_->folder(), train_store_->info().vocab_size, source_.decoder);
  device_ = choose_device(config_, world_);
  memory_ = std::make_unique<MemoryReport>(config_, source_.decoder, *device_.device, world_);
  const std::optional<ResumePoint> resumed = find_resume_point();
  watchdog_ =
      std::make_unique<Watchdog>(config_.guard, config_.run.output, world_.rank(), world_.size());
  make_plan(resumed);
  make_model();
  load(resumed);
  saver_ = std::make_unique<RunSaver>(config_, world_, *device_.device, *model_,
                                      resumed ? resumed->step : -1);
  guard_ = std::make_unique<StepGuard>(config_.guard, std::move(left_out),
                                       resumed ? resumed->guard : "");
  if (plan_->wants_measured_cost()) {
    MeasuredCost measured =
        measure_cost(*plan_, *train_store_, first_step_, *model_, *device_.device, world_);
    plan_->set_measured_cost(measured.cost, std::move(measured.speeds));
  }
  prepare_sizes();
  make_graphs();
  start_metrics();
  tell_memory_plan();
  const BatchSourceOptions options{
      world_.rank(),        config_.batch.normalize, plan_->layout().max_tokens_per_micro_batch,
      plan_->layout().cost, num_sources() > 1,       plan_->layout().speeds};
  batches_ = std::make_unique<BatchSource>(*train_store_, plan_->planner(), *device_.device,
                                           options, first_step_, total_steps_);
  trace_ =
      std::make_unique<StepTrace>(config_.run, total_steps_ - first_step_, *device_.device, world_);
}

void Trainer::open_data() {
  train_store_ = open_training_store(config_.data);
  if (!config_.data.validation.empty())
    validation_store_ = TokenStore::open(config_.data.validation);
}

std::optional<ResumePoint> Trainer::find_resume_point() {
  const std::string root = checkpoints_folder(config_);
  const bool named = config_.checkpoint.resume != "auto" && config_.checkpoint.resume != "never";
  const std::string folder =
      named ? config_.checkpoint.resume : find_latest_checkpoint(root).value_or("");
  if (config_.checkpoint.resume == "never" && !folder.empty()) {
    throw Error(ErrorCategory::kConfig,
                fmt::format("{} already holds checkpoints, and checkpoint.resume is never", root),
                "Choose another run.output, set checkpoint.resume to auto, or remove the folder.");
  }
  TrainingState state;
  state.step = -1;  // there is none
  if (!folder.empty()) state = read_checkpoint_state(folder);
  if (agreed(world_, state.step) != state.step) {
    throw Error(ErrorCategory::kCheckpoint,
                fmt::format("rank {} finds {}, rank 0 another checkpoint or none", world_.rank(),
                            folder.empty() ? "no checkpoint" : folder),
                "All ranks must see the same run.output: use a shared file system.");
  }
  if (folder.empty()) return std::nullopt;
  return resume_point(state, folder);
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
  learning_rate_ = std::make_unique<LearningRate>(config_.optimizer.learning_rate, config_.schedule,
                                                  total_steps_);
  const PlanLosses& losses = plan_->planner().losses();
  spdlog::info(
      "{} examples, {} steps in {} epochs at most; left out: {} empty, {} without "
      "supervised tokens, {} too long; {} truncated, {} split",
      train_store_->info().num_examples, total_steps_, config_.run.num_epochs,
      losses.empty_examples, losses.masked_examples, losses.dropped_examples,
      losses.truncated_examples, losses.split_examples);
}

std::size_t Trainer::num_source_sums() const {
  return num_sources() > 1 ? 2 * static_cast<std::size_t>(num_sources()) : 0;
}

std::int64_t Trainer::num_details() const {
  return static_cast<std::int64_t>(num_source_sums()) + num_load_numbers(source_.decoder);
}

void Trainer::make_model() {
  model_ = make_sharded_model(config_, source_.decoder, device_, world_);
  if (model_->state().master.numel() == 0) {
    throw Error(ErrorCategory::kConfig, "model.frozen leaves no parameter to train",
                "Remove a pattern from model.frozen.");
  }
  optimizer_ = std::make_unique<Optimizer>(*model_, config_.optimizer, config_.run.seed);
  for (auto& outcome : outcomes_) {
    outcome = std::make_unique<StepOutcome>(*device_.device, num_details());
  }
  if (validation_store_ == nullptr) return;
  check_vocabulary(validation_store_->folder(), validation_store_->info().vocab_size,
                   source_.decoder);
  evaluator_ = std::make_unique<Evaluator>(
      *validation_store_, plan_->layout().max_tokens_per_micro_batch, *device_.device, world_);
}

void Trainer::tell_memory_plan() {
  if (first_step_ >= total_steps_) return;
  const StepPlan first = plan_->planner().plan(first_step_);
  const auto has_several = [](const auto& micro_batches) { return micro_batches.size() > 1; };
  memory_->tell_plan({.num_rows = std::min(plan_->layout().max_tokens_per_micro_batch,
                                           most_useful_tokens(config_, world_.size())),
                      .several_micro_batches = std::ranges::any_of(first.ranks, has_several)},
                     world_.size() / model_->num_replicas());
}

void Trainer::load(const std::optional<ResumePoint>& resumed) {
  if (!resumed) {
    load_weights(source_, config_.run.seed, *model_);
    return;
  }
  load_checkpoint(resumed->folder, model_->shards(), true);
  model_->weights_changed();
  first_step_ = resumed->step;
  spdlog::info("resumed from {}: {} of {} steps done", resumed->folder, first_step_, total_steps_);
}

// On the CPU nothing depends on sizes, and deterministic runs take what heuristics name.
void Trainer::prepare_sizes() {
  if (device_.device->kind() == DeviceKind::kCpu || config_.precision.deterministic) return;
  SizeOptions options;
  options.vocab_size = source_.decoder.vocab_size;
  options.hidden_size = source_.decoder.hidden_size;
  options.element_bytes = config_.precision.compute == Precision::kFloat32 ? 4 : 2;
  options.narrow_gradients = config_.precision.reduce != Precision::kFloat32;
  const RehearsalPlan plan =
      plan_rehearsals(plan_->planner(), *train_store_, first_step_, total_steps_, options);
  if (plan.rehearsals.empty()) return;
  prepare_attention_of(source_.decoder, config_.precision.compute, plan.most_rows, *device_.device);
  const std::size_t num_run =
      rehearse(plan, config_.batch.strategy, *train_store_, *model_, *device_.device, world_);
  for (const Rehearsal& run : std::span(plan.rehearsals).first(num_run)) {
    memory_->add({.num_rows = run.num_rows,
                  .num_supervised_rows = run.num_supervised_rows,
                  .num_sequences = run.num_sequences,
                  .most_rows = plan.most_rows,
                  .several_micro_batches = run.accumulated});
  }
}

void Trainer::make_graphs() {
  const bool wanted = wants_graphs(config_.run.cuda_graphs, source_.decoder,
                                   plan_->layout().max_tokens_per_micro_batch);
  if (!wanted) return;
  const bool possible = device_.device->kind() == DeviceKind::kCuda && world_.size() == 1 &&
                        all_attention_is(AttentionBackend::kCudnn, source_.decoder,
                                         config_.precision.compute, *device_.device) &&
                        !config_.metrics.example_losses && num_sources() <= 1 &&
                        config_.run.trace_steps == 0;
  if (possible) {
    graphs_ = std::make_unique<StepGraphs>(*model_, *device_.device);
  } else if (config_.run.cuda_graphs == CudaGraphs::kOn) {
    throw Error(ErrorCategory::kConfig,
                "run.cuda_graphs is on, but graphs serve one rank on a GPU with cuDNN's attention "
                "(bf16, not deterministic), one source of data, without metrics.example_losses and "
                "run.trace_steps",
                "Set run.cuda_graphs to auto, or change what is in the way.");
  }
}

void Trainer::start_metrics() {
  const bool keeps_ledger = config_.metrics.example_losses;
  if (world_.rank() == 0) {
    write_run_files(config_, *plan_);
    prepare_example_ledgers(config_.run.output, keeps_ledger ? world_.size() : 0, first_step_);
  }
  world_.control().barrier();  // the folder is there
  if (keeps_ledger) {
    ledger_ = std::make_unique<ExampleLedger>(config_.run.output, world_.rank(), first_step_,
                                              *train_store_, *device_.device);
  }
  MetricsOptions options;
  options.serve = config_.metrics.serve;
  options.address = config_.metrics.address;
  options.port = config_.metrics.port + world_.local_rank();
  options.run_folder = config_.run.output;
  options.run_name = run_name(config_);
  options.host = world_.host();
  options.rank = world_.rank();
  options.total_steps = total_steps_;
  options.first_step = first_step_;
  metrics_ = Metrics::start(options);
  const auto endpoints = all_texts(world_, metrics_->endpoint().value_or(""));
  const auto hosts = all_texts(world_, world_.host());
  if (world_.rank() == 0) {
    write_metrics_targets(config_.run.output, options.run_name, endpoints, hosts);
  }
}

}  // namespace packtrain
