#include "training/loop/planned_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "framework/config/objective_settings.h"
#include "framework/core/error.h"
#include "framework/core/logging.h"
#include "framework/core/units.h"
#include "models/adapters/lora_text.h"
#include "training/checkpoint/checkpoint.h"
#include "training/plan/gather_slots.h"
#include "training/plan/plan_continuation.h"
#include "training/saving/resume_point.h"
#include "training/saving/resumed_settings.h"
#include "training/setup/adapter_residual.h"
#include "training/setup/collective_read.h"
#include "training/setup/model_source.h"
#include "training/setup/training_store.h"
#include "training/steps/due_steps.h"

namespace packtrain {
namespace {

std::vector<std::string> names_of(const std::vector<LoraOptions>& adapters) {
  std::vector<std::string> names;
  for (const LoraOptions& adapter : adapters) names.push_back(adapter.name);
  return names;
}

std::string describe_adapters(const std::vector<std::string>& names) {
  if (names.empty()) return "a whole model";
  if (names.size() > 1) return fmt::format("the adapters {}", fmt::join(names, ", "));
  return names.front().empty() ? "one adapter without a name" : "one adapter, " + names.front();
}

// The parts of a checkpoint are found by the adapter's name: those of another one would seem to be
// damaged. checkpoint.allow_changed cannot allow it.
void check_same_adapters(const ResumePoint& resumed, const RunInputs& inputs) {
  std::vector<std::string> saved;
  std::vector<std::string> present;
  if (!resumed.adapter.empty()) saved = names_of(parse_lora_list(resumed.adapter, resumed.folder));
  if (inputs.source.adapter) present = names_of(inputs.source.adapter->adapters);
  if (saved.size() < 2 && present.size() < 2) return;
  if (std::set(saved.begin(), saved.end()) == std::set(present.begin(), present.end())) return;
  throw Error(ErrorCategory::kCheckpoint,
              fmt::format("{} holds {}, but this run trains {}", resumed.folder,
                          describe_adapters(saved), describe_adapters(present)),
              "Restore `adapters`, or give this run its own run.output. To train one of several "
              "further, make a folder of it with `packtrain export --adapter NAME`, and give that "
              "as adapter.path.");
}

void check_resumed(const Config& config, const RunInputs& inputs, const PlannedRun& run, int rank) {
  const ResumePoint& resumed = *run.resumed;
  if (resumed.step > run.total_steps()) {
    throw Error(ErrorCategory::kCheckpoint,
                fmt::format("{} was saved after step {}, this run has only {} steps",
                            resumed.folder, resumed.step, run.total_steps()),
                "Raise run.num_epochs or run.max_steps, or give this run its own run.output.");
  }
  const CurrentSettings present{config, run.plan->header().settings, inputs.source.config_json,
                                run.total_steps()};
  check_model_size(resumed, present.model_config);
  if (const auto unread = unread_model_path(resumed, config); !unread.empty()) {
    log_warning("{}", unread);
  }
  check_changes(changed_settings(resumed, present), config.checkpoint.allow_changed,
                resumed.folder);
  check_continuation(run.plan->continuation(), config.checkpoint, resumed.folder, rank);
}

void log_selection(const Config& config, const RunInputs& inputs, const Planner& planner) {
  const TokenStore& store = *inputs.stores.all;
  const std::string beyond =
      exceeds_max_positions(store, config.data, inputs.source.decoder.max_positions);
  if (!beyond.empty()) log_warning("{}\n  {}", beyond, kExceedsMaxPositionsAdvice);
  const SelectionCounts& losses = planner.losses();
  log_info(
      "{}; {} examples{}; left out: {} empty, {} without "
      "supervised tokens, {} cut before any, {} too long; {} truncated, {} split",
      describe_length(config.run, planner), store.info().num_examples,
      store.info().groups ? fmt::format(" in {} groups", store.info().groups->num_groups) : "",
      losses.empty_examples, losses.masked_examples, losses.truncated_to_empty_examples,
      losses.dropped_examples, losses.truncated_examples, losses.split_examples);
  const std::string cut = truncated_to_empty(losses, store, config.data);
  if (!cut.empty()) log_warning("{}\n  {}", cut, kTruncatedToEmptyAdvice);
  if (const auto num_bad = store.info().num_bad_lines; num_bad > 0) {
    log_info("{} bad lines were left out when the stores were made: their bad-lines.jsonl",
             num_bad);
  }
}

void log_adapters(const RunInputs& inputs, const RunPlan& plan) {
  for (std::size_t a = 0; a < inputs.stores.configs.size(); ++a) {
    log_info("adapter '{}': {} examples, {} steps", inputs.stores.configs[a].adapter.name,
             inputs.stores.own[a]->info().num_examples, plan.num_steps()[a]);
  }
}

void make_plan(const Config& config, const RunInputs& inputs, World& world, PlannedRun& run) {
  if (run.resumed) check_same_adapters(*run.resumed, inputs);
  run.plan = std::make_unique<RunPlan>(config, inputs.source.decoder, *inputs.stores.all,
                                       run.resumed, *inputs.device.device, world,
                                       AdapterStores{inputs.stores.configs, inputs.stores.own});
  if (run.resumed) check_resumed(config, inputs, run, world.rank());
  run.learning_rates.clear();
  for (std::size_t a = 0; a < inputs.stores.configs.size(); ++a) {
    const Config& own = inputs.stores.configs[a];
    run.learning_rates.emplace_back(own.optimizer.learning_rate, own.schedule,
                                    run.plan->num_steps().at(a), run.plan->schedule_from());
  }
  if (inputs.has_several_adapters()) return log_adapters(inputs, *run.plan);
  log_selection(config, inputs, run.plan->planner());
}

void make_model(const Config& given, const RunInputs& inputs, World& world, PlannedRun& run) {
  const DecoderConfig& decoder = inputs.source.decoder;
  const std::int64_t budget = run.plan->first_budget();
  Device& device = *inputs.device.device;
  Config& config = run.resolved = run.plan->resolve(given);
  config.parallel.gather_slots = gather_slots(config, decoder, budget, device, world);
  run.model = make_sharded_model(config, decoder, inputs.device, world);
  const ShardedModel& model = *run.model;
  run.communicator_watch =
      std::make_unique<CommunicatorWatch>([&model] { model.ranks().poll_errors(); }, world.rank());
  require_trainable(*run.model);
  inputs.evaluations->prepare(decoder, budget, device, world, run.plan->mesh());
}

// The weights of an adapter's model, which checkpoints do not hold.
void load_same_base(const Config& config, const RunInputs& inputs, World& world, PlannedRun& run) {
  run.base_digest = load_base(inputs.source, config.run.seed, *run.model, world.control());
  const ResumePoint& resumed = *run.resumed;
  check_same_residual(inputs.source, resumed.folder);
  if (resumed.base_digest == run.base_digest) return;
  throw Error(ErrorCategory::kCheckpoint,
              fmt::format("{} was trained over weights of digest {}, but {} has {}", resumed.folder,
                          resumed.base_digest.empty() ? "none" : resumed.base_digest,
                          inputs.source.folder.empty() ? "model.config" : inputs.source.folder,
                          run.base_digest),
              "An adapter continues over the same weights: restore the folder of model.path, or "
              "give this run its own run.output.");
}

// False when the checkpoint is damaged and an older one may be used.
bool load(const Config& config, const RunInputs& inputs, World& world, PlannedRun& run) {
  const ResumePoint& resumed = *run.resumed;
  const bool of_adapter = inputs.source.adapter.has_value();
  if (of_adapter) load_same_base(config, inputs, world, run);
  ReadCounts counts;
  const auto read = [&](std::span<const ShardView> all) {
    counts = load_checkpoint(resumed.folder, saved_shards({all.begin(), all.end()}, of_adapter),
                             /*with_optimizer_state=*/true);
    if (!of_adapter) return;
    run.initial_values =
        subtract_saved_values(resumed.folder, inputs.source, config.run.seed, *run.model);
  };
  if (const auto failure = collective_read(*run.model, world.control(), read)) {
    if (!failure->is_damage || config.checkpoint.resume == resumed.folder) throw failure->error;
    if (world.rank() == 0) log_warning("checkpoint passed over: {}", failure->error.message());
    return false;
  }
  run.model->parameters().weights_changed();
  log_info("resumed from {}: {} of {} steps done; read {:.2f} GiB of {} files", resumed.folder,
           resumed.step, run.total_steps(), static_cast<double>(counts.num_bytes) / kGibibyte,
           counts.num_opens);
  return true;
}

// False when the checkpoint is damaged. Nothing of the model is left then.
bool try_plan_and_load(const Config& config, const RunInputs& inputs, World& world,
                       PlannedRun& run) {
  make_plan(config, inputs, world, run);
  make_model(config, inputs, world, run);
  if (!run.resumed) {
    LoadedWeights loaded =
        load_weights(inputs.source, config.run.seed, *run.model, world.control());
    run.base_digest = std::move(loaded.base_digest);
    run.initial_values = std::move(loaded.initial_values);
    return true;
  }
  if (load(config, inputs, world, run)) return true;
  run.communicator_watch.reset();  // before the model
  run.model.reset();
  return false;
}

// Otherwise the files would be looked for by the digest of trained weights.
void check_reference_digest(const PlannedRun& run) {
  const bool is_missing = run.resumed && run.resumed->reference_digest.empty() &&
                          run.resolved.objective.reference_path.empty() &&
                          reference_source(run.resolved) == ReferenceSource::kLogProbs;
  if (!is_missing) return;
  throw Error(ErrorCategory::kCheckpoint,
              fmt::format("{} does not name the model of the reference's log-probabilities, which "
                          "objective.reference: log_probs reads",
                          run.resumed->folder),
              "Set objective.reference_path to the DIGEST of log-probs-DIGEST.safetensors.");
}

void add_reference(const RunInputs& inputs, World& world, PlannedRun& run) {
  check_reference_digest(run);
  run.reference =
      open_reference(run.resolved, inputs.source, inputs.device, *run.model, run.base_digest,
                     run.resumed ? run.resumed->reference_digest : "", world);
  require_log_probs(run.reference, run.resolved);
  run.log_probs = open_log_probs(run.reference, run.resolved, *inputs.stores.all);
  inputs.evaluations->set_reference(
      run.reference.forward(*run.model),
      [&](const TokenStore& store) { return open_log_probs(run.reference, run.resolved, store); });
  if (run.reference.model == nullptr) return;
  const auto poll = [&model = *run.model, &reference = *run.reference.model] {
    model.ranks().poll_errors();
    reference.ranks().poll_errors();
  };
  run.communicator_watch.reset();
  run.communicator_watch = std::make_unique<CommunicatorWatch>(poll, world.rank());
}

}  // namespace

std::vector<double> PlannedRun::learning_rates_at(std::int64_t step) const {
  std::vector<double> rates;
  for (const LearningRate& rate : learning_rates) rates.push_back(rate.at(step));
  return rates;
}

PlannedRun plan_and_load(const Config& config, const RunInputs& inputs, FaultInjector& faults,
                         World& world) {
  PlannedRun run;
  run.memory =
      std::make_unique<MemoryReport>(config, inputs.source.decoder, *inputs.device.device, world);
  std::set<std::string> passed_over;
  for (;;) {
    run.resumed = find_resume_point(config, passed_over, world.control());
    if (try_plan_and_load(config, inputs, world, run)) break;
    passed_over.insert(run.resumed->folder);
  }
  add_reference(inputs, world, run);
  faults.maybe_inject(FaultPhase::kLoad);
  return run;
}

}  // namespace packtrain
