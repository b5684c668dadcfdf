#include "framework/config/unread_warnings.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "framework/config/adapters.h"
#include "framework/config/check_messages.h"
#include "framework/config/load.h"

namespace packtrain {
namespace {

using KeyNames = std::initializer_list<const char*>;

class UnreadKeys {
 public:
  UnreadKeys(const Config& config, const SettingPlaces& places)
      : config_(config), places_(places) {}

  // `reader`: the key whose value leaves `keys` out. `advice` says which value reads them.
  void add(KeyNames keys, const char* reader, const std::string& advice) {
    add_because(keys, stated(reader, config_value(config_, reader), places_), advice);
  }

  void add_because(KeyNames keys, const std::string& reason, const std::string& advice) {
    for (const char* key : keys) {
      if (!is_changed(config_, key)) continue;
      keys_.push_back({fmt::format("{}: {} ({}) has no effect: {}", key, config_value(config_, key),
                                   place_of(key, places_), reason),
                       fmt::format("{}, or leave {} out.", advice, key)});
    }
  }

  std::vector<UnreadKey> take() { return std::move(keys_); }

 private:
  const Config& config_;
  const SettingPlaces& places_;
  std::vector<UnreadKey> keys_;
};

void add_model(const Config& config, UnreadKeys& keys) {
  if (!config.model.path.empty()) return;
  keys.add_because({"model.prefix"}, "model.path is not given, so that no weights are read",
                   "Set model.path");
}

void add_adapter(const Config& config, UnreadKeys& keys) {
  if (config.adapter.path.empty()) return;
  keys.add_because({"adapter.init"}, "the adapter of adapter.path has its values",
                   "Leave adapter.path out for a new adapter");
}

// True when the stores of a mixture have shares of it.
bool has_shares(const Config& config) {
  return config.data.train.size() > 1 &&
         std::ranges::any_of(config.data.train, [](const TrainStore& store) {
           return store.share.has_value() || store.probability.has_value();
         });
}

void add_data(const Config& config, UnreadKeys& keys) {
  if (std::ranges::any_of(adapter_configs(config), has_shares)) return;
  keys.add_because({"data.mixture_until"}, "data.train is not several stores with shares",
                   "Give each store of data.train a `share` or a `probability`");
}

void add_batch(const Config& config, UnreadKeys& keys) {
  const StrategyTraits& strategy = traits_of(config.batch.strategy);
  if (!strategy.has_micro_batch_size) {
    keys.add({"batch.micro_batch_size"}, "batch.strategy",
             "Set batch.max_tokens_per_micro_batch, which limits micro-batches here");
  }
  if (!strategy.has_packs) {
    keys.add({"batch.packing_window"}, "batch.strategy", "Set batch.strategy: multipack");
  }
  if (!strategy.has_plan_file) {
    keys.add({"batch.plan_file"}, "batch.strategy",
             "Set batch.strategy: file, as `packtrain compare --strategies file` does");
  }
}

// Muon updates with AdamW what is no matrix of a layer.
void add_optimizer(const OptimizerSection& optimizer, UnreadKeys& keys) {
  const auto uses_any = [&](std::initializer_list<const char*> names) {
    return std::ranges::any_of(names,
                               [&](const char* name) { return uses_optimizer(optimizer, name); });
  };
  if (!uses_any({"adamw", "muon", "sophia"})) {
    keys.add({"optimizer.epsilon"}, "optimizer.name", "Set another optimizer");
  }
  if (!uses_any({"adamw", "muon", "sophia", "lion"})) {
    keys.add({"optimizer.betas", "optimizer.moments"}, "optimizer.name", "Set another optimizer");
  }
  if (optimizer.weight_decay == 0) {
    keys.add({"optimizer.decay_norms_and_biases"}, "optimizer.weight_decay",
             "Set optimizer.weight_decay above 0");
  }
}

void add_schedule(const Config& config, UnreadKeys& keys) {
  const auto all = [adapters = adapter_configs(config)](const auto& is_unread) {
    return std::ranges::all_of(adapters,
                               [&](const Config& own) { return is_unread(own.schedule); });
  };
  if (all([](const ScheduleSection& own) { return own.warmup_steps.has_value(); })) {
    keys.add_because({"schedule.warmup_ratio"}, "schedule.warmup_steps is given too",
                     "Set schedule.warmup_steps: null");
  }
  if (all([](const ScheduleSection& own) { return own.decay_steps.has_value(); })) {
    keys.add_because({"schedule.decay_ratio"}, "schedule.decay_steps is given too",
                     "Set schedule.decay_steps: null");
  }
  if (all([](const ScheduleSection& own) { return own.name == ScheduleKind::kConstant; })) {
    keys.add({"schedule.min_ratio"}, "schedule.name", "Set a schedule that decays");
  }
}

void add_parallel(const ParallelSection& parallel, UnreadKeys& keys) {
  if (parallel.zero_stage == 3) return;
  keys.add({"parallel.gather_slots"}, "parallel.zero_stage", "Set parallel.zero_stage: 3");
}

void add_guard(const GuardSection& guard, UnreadKeys& keys) {
  if (guard.spikes == Spikes::kIgnore) {
    keys.add({"guard.spike_threshold", "guard.spike_window"}, "guard.spikes",
             "Set guard.spikes: warn or skip");
  }
  if (guard.spikes != Spikes::kSkip && guard.non_finite == NonFinite::kStop) {
    keys.add({"guard.max_skipped_steps"}, "guard.non_finite",
             "Set guard.non_finite: skip or rewind, or guard.spikes: skip");
  }
}

void add_run(const Config& config, UnreadKeys& keys) {
  const RunSection& run = config.run;
  if (run.evaluate_steps.is_never()) {
    keys.add({"checkpoint.keep_best"}, "run.evaluate_steps",
             "Set run.evaluate_steps above 0, because the end alone is evaluated");
  }
  if (run.early_stopping_patience == 0) {
    keys.add({"run.early_stopping_min_delta"}, "run.early_stopping_patience",
             "Set run.early_stopping_patience above 0");
  }
  if (run.trace_steps == 0) {
    keys.add({"run.trace_first"}, "run.trace_steps", "Set run.trace_steps above 0");
  }
  if (run.evaluate_command.empty() && config.checkpoint.after_save.empty()) {
    keys.add_because({"run.command_timeout_s"},
                     "neither run.evaluate_command nor checkpoint.after_save is given",
                     "Set one of them");
  }
}

void add_samples(const SamplesSection& samples, UnreadKeys& keys) {
  if (samples.steps.is_never()) {
    keys.add({"samples.num_prompts", "samples.prompt_tokens", "samples.max_new_tokens",
              "samples.temperature", "samples.top_p", "samples.without_adapter"},
             "samples.steps", "Set samples.steps above 0");
  } else if (samples.temperature == 0) {
    keys.add({"samples.top_p"}, "samples.temperature", "Set samples.temperature above 0");
  }
}

void add_metrics(const MetricsSection& metrics, UnreadKeys& keys) {
  if (metrics.serve) return;
  keys.add({"metrics.address", "metrics.port", "metrics.last_scrape_timeout_s"}, "metrics.serve",
           "Set metrics.serve: true");
}

// A rate of 0 can be meant: to measure a step, or for a group that does not move.
void add_zero_rates(const Config& config, const SettingPlaces& places,
                    std::vector<UnreadKey>& warnings) {
  constexpr const char* kKind = "zero_learning_rate";
  for (const Config& own : adapter_configs(config)) {
    if (own.optimizer.learning_rate != 0) continue;
    const std::string rate = config.adapters.empty()
                                 ? stated("optimizer.learning_rate", 0, places)
                                 : adapter_label(own.adapter.name) + " has the learning rate 0";
    warnings.push_back(
        {rate + ": nothing is trained",
         "Set a rate above 0, unless the run is to change no weight, as to measure it.", kKind});
  }
  if (config.optimizer.learning_rate == 0) return;
  for (const OptimizerGroupSetting& group : config.optimizer.groups) {
    if (group.learning_rate.value_or(1) != 0) continue;
    warnings.push_back(
        {fmt::format("optimizer.groups ({}) gives '{}' the learning rate 0: its parameters are not "
                     "trained",
                     place_of("optimizer.groups", places), group.match),
         fmt::format("Give the group a rate above 0. If its parameters are not to move, "
                     "model.frozen: ['{}'] saves their gradients and moments as well.",
                     group.match),
         kKind});
  }
}

}  // namespace

std::vector<UnreadKey> unread_keys(const Config& config, const SettingPlaces& places) {
  UnreadKeys keys(config, places);
  add_model(config, keys);
  add_adapter(config, keys);
  add_data(config, keys);
  add_batch(config, keys);
  add_optimizer(config.optimizer, keys);
  add_schedule(config, keys);
  add_parallel(config.parallel, keys);
  add_guard(config.guard, keys);
  add_metrics(config.metrics, keys);
  add_run(config, keys);
  add_samples(config.samples, keys);
  std::vector<UnreadKey> warnings = keys.take();
  add_zero_rates(config, places, warnings);
  return warnings;
}

}  // namespace packtrain
