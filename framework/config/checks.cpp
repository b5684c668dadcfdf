#include "framework/config/checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <vector>

#include "framework/config/adapters.h"
#include "framework/config/check_messages.h"
#include "framework/config/load.h"
#include "framework/config/objective_checks.h"
#include "framework/config/optimizer_checks.h"
#include "framework/config/precision_checks.h"
#include "framework/config/sophia_settings.h"
#include "framework/config/unread_checks.h"
#include "framework/core/error.h"

namespace packtrain {
namespace {

void check_model(const ModelSection& model, const SettingPlaces& places) {
  if (model.dropout && *model.dropout != 0) {
    fail_check(
        fmt::format("{}, wanted 0 or null", stated("model.dropout", *model.dropout, places)),
        "packtrain computes no dropout; 0 trains a model without the dropouts of its config.");
  }
  if (model.resize_vocabulary && model.path.empty() && !model.config.empty()) {
    fail_check(fmt::format("{}, but model.path is not given",
                           stated("model.resize_vocabulary", *model.resize_vocabulary, places)),
               "A model with random weights has the vocab_size that model.config says.");
  }
  if (model.path.empty() || model.config.empty()) return;
  fail_check(
      fmt::format("model.path ({}) and model.config ({}) are both given, wanted one",
                  place_of("model.path", places), place_of("model.config", places)),
      "model.path trains from a Hugging Face folder's weights, model.config from random ones; "
      "set the other to null.");
}

void check_lengths(const Config& config, const SettingPlaces& places) {
  const auto& budget = config.batch.max_tokens_per_micro_batch;
  if (!budget || config.data.max_length <= *budget) return;
  fail_check(fmt::format("{}, but {}: the longest example would fit into no micro-batch",
                         stated("data.max_length", config.data.max_length, places),
                         stated("batch.max_tokens_per_micro_batch", *budget, places)),
             "Lower data.max_length or raise batch.max_tokens_per_micro_batch.");
}

void check_batch_size(const BatchSection& batch, const SettingPlaces& places) {
  if (batch.global_batch_size.has_value() != batch.global_batch_tokens.has_value()) return;
  fail_check(
      fmt::format("batch.global_batch_size ({}) and batch.global_batch_tokens ({}) are {} given, "
                  "wanted one",
                  place_of("batch.global_batch_size", places),
                  place_of("batch.global_batch_tokens", places),
                  batch.global_batch_size ? "both" : "not"),
      "An optimizer step is that many examples, or that many tokens; set the other to null.");
}

// "padding, padding_free or balanced": the strategies for which `is_wanted` holds.
template <class IsWanted>
std::string strategies_where(const IsWanted& is_wanted) {
  std::vector<std::string> names;
  for (const StrategyTraits& strategy : kStrategyTraits) {
    if (is_wanted(strategy)) names.emplace_back(strategy.name);
  }
  std::string last = names.back();
  names.pop_back();
  if (names.empty()) return last;
  return fmt::format("{} or {}", fmt::join(names, ", "), last);
}

// Packs and rows keep the order as given. Strategies that cut examples cannot weight them equally.
void check_strategy(const Config& config, const SettingPlaces& places) {
  const BatchSection& batch = config.batch;
  const StrategyTraits& strategy = traits_of(batch.strategy);
  if (batch.cross_example_attention && !strategy.has_rows) {
    const std::string names = strategies_where([](const auto& other) { return other.has_rows; });
    fail_check(
        fmt::format("{}, but batch.strategy ({}) is not {}",
                    stated("batch.cross_example_attention", true, places),
                    place_of("batch.strategy", places), names),
        fmt::format("Only the rows of strategy {} can be one sequence; leave it out.", names));
  }
  if (batch.normalize == Normalize::kExamples && strategy.has_rows) {
    fail_check(fmt::format("{}, but {}: rows cut examples, so that a step does not hold whole ones",
                           stated("batch.normalize", "examples", places),
                           stated("batch.strategy", strategy.name, places)),
               "Set batch.normalize: tokens, or another strategy.");
  }
  const bool packs_pieces = strategy.has_packs && config.data.too_long == TooLong::kSplit;
  if (batch.normalize == Normalize::kExamples && packs_pieces) {
    fail_check(
        fmt::format("{}, but {} and {}: the pieces of an example may be packed into two steps",
                    stated("batch.normalize", "examples", places),
                    stated("batch.strategy", strategy.name, places),
                    stated("data.too_long", "split", places)),
        "Set batch.normalize: tokens, data.too_long: truncate or drop, or batch.strategy: "
        "balanced, which keeps them in one step.");
  }
  if (strategy.has_plan_file && batch.plan_file.empty()) {
    fail_check(
        fmt::format("{}, but batch.plan_file is not given",
                    stated("batch.strategy", strategy.name, places)),
        "Set batch.plan_file to the file with the steps, which `packtrain plan --write-plan FILE` "
        "or the Python package writes (docs/strategies.md).");
  }
  if (strategy.has_plan_file && !config.adapters.empty()) {
    fail_check(
        fmt::format("{}, but adapters ({}) have data of their own",
                    stated("batch.strategy", strategy.name, places), place_of("adapters", places)),
        "Train one adapter with a plan file, or several with another strategy.");
  }
  const bool counts_examples = batch.global_batch_size.has_value() && !strategy.makes_own_steps;
  if (batch.order == OrderKind::kGroupByLength && !counts_examples) {
    fail_check(
        fmt::format("{}, which sorts steps of batch.global_batch_size examples, but these steps "
                    "are counted in tokens (batch.strategy: {}, batch.global_batch_tokens: {})",
                    stated("batch.order", "group_by_length", places),
                    place_of("batch.strategy", places),
                    place_of("batch.global_batch_tokens", places)),
        fmt::format("Set batch.order: random, or batch.global_batch_size with strategy {}.",
                    strategies_where([](const auto& other) { return !other.makes_own_steps; })));
  }
}

void check_warmup(const Config& config, const SettingPlaces& places) {
  const auto& warmup = config.schedule.warmup_steps;
  const auto& steps = config.run.max_steps;
  if (!warmup || !steps || *warmup <= *steps) return;
  fail_check(fmt::format("{}, but {}: the warm-up would not end",
                         stated("schedule.warmup_steps", *warmup, places),
                         stated("run.max_steps", *steps, places)),
             "Lower schedule.warmup_steps.");
}

// With numbers of steps the run's length decides (LearningRate).
void check_decay(const ScheduleSection& schedule, const SettingPlaces& places) {
  if (schedule.name != ScheduleKind::kWarmupStableDecay) return;
  if (schedule.warmup_steps || schedule.decay_steps) return;
  if (schedule.warmup_ratio + schedule.decay_ratio <= 1 + 1e-9) return;
  fail_check(fmt::format("{}, but {}: together they are more than the run",
                         stated("schedule.warmup_ratio", schedule.warmup_ratio, places),
                         stated("schedule.decay_ratio", schedule.decay_ratio, places)),
             "Lower one of them.");
}

void check_resident_embeddings(const ParallelSection& parallel, const SettingPlaces& places) {
  if (parallel.resident_embeddings || parallel.zero_stage == 3) return;
  fail_check(fmt::format("{}, but {} keeps all weights gathered",
                         stated("parallel.resident_embeddings", false, places),
                         stated("parallel.zero_stage", parallel.zero_stage, places)),
             "Set parallel.zero_stage: 3, or parallel.resident_embeddings: true.");
}

void check_evaluation(const Config& config, const SettingPlaces& places) {
  if (has_validation(config)) return;
  if (config.run.evaluate_at_start) {
    fail_check(fmt::format("{}, but data.validation names no token store to evaluate on",
                           stated("run.evaluate_at_start", true, places)),
               "Set data.validation, or run.evaluate_at_start: false.");
  }
  if (config.run.evaluate_steps.is_never()) return;
  const std::string interval = config_value(config, "run.evaluate_steps");
  fail_check(fmt::format("{}, but data.validation names no token store to evaluate on",
                         stated("run.evaluate_steps", interval, places)),
             "Set data.validation, or run.evaluate_steps: 0.");
}

void check_early_stopping(const Config& config, const SettingPlaces& places) {
  const RunSection& run = config.run;
  if (run.early_stopping_patience > 0 && run.evaluate_steps.is_never()) {
    fail_check(
        fmt::format("{}, but run.evaluate_steps is 0: there is one evaluation, at the end",
                    stated("run.early_stopping_patience", run.early_stopping_patience, places)),
        "Set run.evaluate_steps and data.validation, or run.early_stopping_patience: 0.");
  }
}

// checkpoint.best_by must name one of the validation stores.
void check_best_by(const Config& config, const SettingPlaces& places) {
  const std::string& best_by = config.checkpoint.best_by;
  if (best_by.empty()) return;
  std::vector<std::string> names;
  for (const ValidationStore& store : config.data.validation) names.push_back(store.name);
  if (std::ranges::find(names, best_by) != names.end()) return;
  fail_check(fmt::format("{}, which is no name in data.validation ({})",
                         stated("checkpoint.best_by", best_by, places),
                         names.empty() || names.front().empty()
                             ? "it has none"
                             : fmt::format("{}", fmt::join(names, ", "))),
             "Give data.validation as a map of names to stores, and name one of them.");
}

void check_checkpoint(const Config& config, const SettingPlaces& places) {
  const CheckpointSection& checkpoint = config.checkpoint;
  if (checkpoint.keep_best > 0 && !has_validation(config)) {
    fail_check(fmt::format("{}, but data.validation names no token store to tell the best by",
                           stated("checkpoint.keep_best", checkpoint.keep_best, places)),
               "Set data.validation, or checkpoint.keep_best: 0.");
  }
  const std::vector<std::string> known = config_keys();
  for (const std::string& key : checkpoint.allow_changed) {
    if (std::ranges::find(known, key) != known.end()) continue;
    fail_check(fmt::format("checkpoint.allow_changed ({}) names {}, which is no key",
                           place_of("checkpoint.allow_changed", places), key),
               "Name keys as an error names them: section.key.");
  }
}

void check_adapter_init(const Config& config, const SettingPlaces& places) {
  const LoraInit& init = config.adapter.init;
  const bool is_loftq = init.kind == LoraInit::Kind::kLoftq;
  if (!trains_adapter(config) || (!is_loftq && !init.is_pissa())) return;
  if (is_loftq && config.model.base != BaseStorage::kNf4) {
    fail_check(
        fmt::format("adapter.init is loftq ({}), but {}", place_of("adapter.init", places),
                    stated("model.base", config_value(config, "model.base"), places)),
        "LoftQ reduces the error of weights in NF4: set model.base: nf4, or adapter.init: pissa.");
  }
  if (config.adapter.path.empty()) return;
  fail_check(
      fmt::format("adapter.init is {} ({}), but {} has the adapter's values",
                  is_loftq ? "loftq" : "pissa", place_of("adapter.init", places),
                  stated("adapter.path", config.adapter.path, places)),
      "Leave adapter.init out: an adapter of PiSSA is trained further from its checkpoint as it "
      "is.");
}

}  // namespace

void check_settings_agree(const Config& config, const SettingPlaces& places) {
  check_model(config.model, places);
  check_lengths(config, places);
  check_batch_size(config.batch, places);
  check_strategy(config, places);
  check_warmup(config, places);
  check_decay(config.schedule, places);
  check_optimizer(config.optimizer, places);
  check_offloaded_optimizer(config, places);
  check_precision(config, places);
  check_resident_embeddings(config.parallel, places);
  check_evaluation(config, places);
  check_early_stopping(config, places);
  check_best_by(config, places);
  check_checkpoint(config, places);
  check_adapter_init(config, places);
  check_objective(config, places);
  check_sophia(config, places);
  check_keys_are_read(config, places);
}

void check_for_training(const Config& config) {
  for (const Config& own : adapter_configs(config)) {
    if (!own.data.train.empty()) continue;
    if (!config.adapters.empty()) {
      fail_check(adapter_label(own.adapter.name) + " has no token store to train on",
                 "Give it `train`, or all of them data.train.");
    }
    fail_check("data.train names no token store: wanted the store to train on",
               "Make one with `packtrain prepare`, then set data.train: STORE. Or name a file of "
               "examples.");
  }
  if (config.model.path.empty() && config.model.config.empty()) {
    fail_check(
        "neither model.path nor model.config is given, wanted one",
        "model.path: a Hugging Face folder with weights; model.config: config.json keys, for "
        "random weights.");
  }
}

void check_for_evaluation(const Config& config) {
  if (!has_validation(config)) {
    fail_check("data.validation names no token store: wanted the store to evaluate on",
               "Make one with `packtrain prepare`, then set data.validation: STORE.");
  }
}

}  // namespace packtrain
