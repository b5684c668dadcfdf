#include "training/loop/run_evaluator.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "framework/core/logging.h"
#include "training/evaluation/prompts.h"
#include "training/setup/adapter_source.h"
#include "training/steps/due_steps.h"

namespace packtrain {

RunEvaluator::RunEvaluator(const Config& config, const RunInputs& inputs, const PlannedRun& run,
                           EvaluationTracker& tracker, CheckpointSaver& saver,
                           RunReporter& reporter, RunGuards& guards, World& world)
    : config_(config),
      inputs_(inputs),
      run_(run),
      tracker_(tracker),
      saver_(saver),
      reporter_(reporter),
      guards_(guards) {
  if (!config.samples.steps.is_never()) start_samples(world);
}

void RunEvaluator::start_samples(World& world) {
  if (config_.samples.without_adapter) {
    require_model_under_adapter(inputs_.source.decoder, "samples.without_adapter");
  }
  const GenerationOptions options{
      .samples = config_.samples,
      .seed = config_.run.seed,
      .vocab_size = inputs_.source.decoder.vocab_size,
      .max_tokens_per_micro_batch = run_.plan->first_budget(),
      .adapter = {.num_adapters = inputs_.stores.configs.size()},
      .stop_requested = [this] { return guards_.requests.stop_requested(); }};
  const auto ends = end_tokens(inputs_.source.config_json);
  const DecoderConfig& decoder = inputs_.source.decoder;
  const std::int64_t longest =
      decoder.learned_positions ? decoder.max_positions : options.max_tokens_per_micro_batch;
  const std::int64_t max_tokens = std::min(longest, options.max_tokens_per_micro_batch);
  std::vector<Prompt> prompts;
  const auto add = [&](const std::string& set, const TokenStore& store, std::size_t adapter) {
    for (Prompt& prompt : choose_prompts(store, set, config_.samples, max_tokens, ends)) {
      prompt.adapter = adapter;
      prompts.push_back(std::move(prompt));
    }
  };
  inputs_.evaluations->for_each(add);
  if (inputs_.evaluations->empty()) add("", *inputs_.stores.all, 0);
  const std::int64_t written = run_.first_step() - (tracker_.due().samples ? 1 : 0);
  samples_ = std::make_unique<Samples>(std::move(prompts), options, config_.run.output, written,
                                       *inputs_.device.device, world);
}

DueEvaluations RunEvaluator::find_due(std::int64_t steps_done) const {
  const std::int64_t total = run_.total_steps();
  const auto is_due_at = [&](const Interval& interval) {
    return steps_done == total || is_due(interval, steps_done, total, run_.plan->planner());
  };
  return {.evaluation = !inputs_.evaluations->empty() && is_due_at(config_.run.evaluate_steps),
          .samples = samples_ != nullptr && is_due_at(config_.samples.steps)};
}

void RunEvaluator::run_due(std::int64_t steps_done) {
  guards_.watchdog.enter(RunPhase::kCheckpoint, steps_done);
  if (tracker_.due().evaluation) evaluate(steps_done);
  if (tracker_.due().samples) sample(steps_done);
  guards_.watchdog.enter(RunPhase::kStep, steps_done + 1);
}

void RunEvaluator::evaluate(std::int64_t steps_done) {
  set_log_position(steps_done, "evaluate");
  EvaluationSets& sets = *inputs_.evaluations;
  sets.lower_budget(run_.plan->layout().max_tokens_per_micro_batch);
  const EvaluationRecord record =
      sets.evaluate(*run_.model, steps_done, [this] { return guards_.requests.stop_requested(); });
  tracker_.finish_evaluation();
  reporter_.evaluation(record);
  if (steps_done == 0) return;  // nothing trained, nothing to save
  const bool is_among_the_best = tracker_.add(steps_done, record.loss);
  saver_.keep_evaluated(steps_done, is_among_the_best);
}

void RunEvaluator::sample(std::int64_t steps_done) {
  set_log_position(steps_done, "sample");
  guards_.watchdog.enter(RunPhase::kCheckpoint, steps_done);
  samples_->lower_budget(run_.plan->layout().max_tokens_per_micro_batch);
  samples_->write(*run_.model, steps_done);
  tracker_.finish_samples();
  saver_.amend(steps_done);
}

}  // namespace packtrain
