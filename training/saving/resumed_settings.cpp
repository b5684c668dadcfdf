#include "training/saving/resumed_settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>

#include "framework/config/adapters.h"
#include "framework/config/load.h"
#include "framework/config/setting.h"
#include "framework/core/error.h"
#include "models/decoder/decoder.h"
#include "models/families/family.h"
#include "training/saving/resumed_keys.h"
#include "training/steps/learning_rate.h"

namespace packtrain {
namespace {

using Json = nlohmann::ordered_json;
using Values = std::map<std::string, Json>;  // by "section.key"

Values values_of(const std::string& yaml, const std::string& where) {
  Values values;
  for (const Setting& setting : read_settings(yaml, where)) values[setting.name()] = setting.value;
  return values;
}

// Reads a value of the checkpoint. Errors name the checkpoint.
template <class Read>
auto of_checkpoint(const std::string& folder, const char* what, const Read& read) {
  std::string fault;
  try {
    return read();
  } catch (const Error& error) {
    fault = error.message();
  } catch (const nlohmann::json::exception& error) {
    fault = error.what();
  }
  throw Error(ErrorCategory::kCheckpoint,
              fmt::format("{}: its {} is damaged: {}", folder, what, fault),
              "Use an older checkpoint.");
}

class Comparison {
 public:
  Comparison(Values saved, Values present)
      : saved_(std::move(saved)), present_(std::move(present)) {}

  // A key that the checkpoint lacks was added later. Its default describes the behaviour of the
  // older version.
  void compare(const std::string& key) {
    static const Values kDefaults = values_of(dump_config(Config()), "defaults");
    const auto found = saved_.find(key);
    const Json& saved = found != saved_.end() ? found->second : kDefaults.at(key);
    const Json& present = present_.at(key);
    if (saved != present) add({key, saved.dump(), present.dump()});
  }

  // Compares loss weights by store. Paths are compared by the stores' contents.
  void compare_loss_weights() {
    const std::string saved = loss_weights(saved_);
    const std::string present = loss_weights(present_);
    if (saved != present) add({"data.train", "loss_weight " + saved, "loss_weight " + present});
  }

  // The folder decides on the other keys of adapter then.
  bool has_adapter_path() const {
    const auto is_given = [](const Values& values) {
      const auto path = values.find("adapter.path");
      return path != values.end() && path->second.is_string() &&
             !path->second.get_ref<const std::string&>().empty();
    };
    return is_given(saved_) && is_given(present_);
  }

  // The state of an optimizer is not that of another one, codes are not numbers, and an adapter of
  // another rank has other parameters.
  void compare_states() {
    static constexpr std::array<std::string_view, 3> kOtherState = {
        "optimizer.name", "adapter.rank", "adapter.use_dora"};
    for (SettingChange& change : changes_) {
      const bool changes_codes = change.key == "optimizer.moments" &&
                                 (change.saved == kInt8Moments || change.present == kInt8Moments) &&
                                 has_codes();
      const bool has_other_state =
          std::ranges::find(kOtherState, change.key) != kOtherState.end() || changes_codes;
      if (has_other_state) change.can_be_allowed = false;
    }
  }

  void add(SettingChange change) { changes_.push_back(std::move(change)); }

  std::size_t num_changes() const { return changes_.size(); }

  std::vector<SettingChange> take() { return std::move(changes_); }

 private:
  static constexpr const char* kInt8Moments = "\"int8\"";

  // Muon updates with AdamW what is no matrix of a layer.
  bool has_codes() const {
    const Json& name = present_.at("optimizer.name");
    return name == "adamw" || name == "muon";
  }

  static std::string loss_weights(const Values& values) {
    const auto stores = values.find("data.train");
    std::vector<double> weights;
    if (stores != values.end() && stores->second.is_array()) {
      for (const Json& store : stores->second) {
        weights.push_back(store.is_object() ? store.value("loss_weight", 1.0) : 1.0);
      }
    } else {
      weights.push_back(1.0);
    }
    return fmt::format("{}", fmt::join(weights, ", "));
  }

  Values saved_;
  Values present_;
  std::vector<SettingChange> changes_;
};

// False for members that only describe the program which wrote the file.
bool describes_model(std::string_view key) {
  return !key.starts_with('_') && key != "transformers_version";
}

std::vector<SettingChange> model_changes(const std::string& saved_text,
                                         const std::string& present_text) {
  const Json saved = Json::parse(saved_text, nullptr, /*allow_exceptions=*/false);
  const Json present = Json::parse(present_text, nullptr, /*allow_exceptions=*/false);
  if (!saved.is_object() || !present.is_object()) return {};
  const auto text_of = [](const Json& config, const std::string& key) {
    return config.contains(key) ? fmt::format("{} {}", key, config[key].dump()) : "no " + key;
  };
  Json keys = saved;
  keys.update(present);
  std::vector<SettingChange> changes;
  for (const auto& [key, ignored] : keys.items()) {
    if (!describes_model(key)) continue;
    std::string before = text_of(saved, key);
    std::string now = text_of(present, key);
    if (before != now) changes.push_back({"model.config", std::move(before), std::move(now)});
  }
  return changes;
}

// Checkpoints of older versions have no model config.
std::vector<SettingChange> changes_of_model(const ResumePoint& resumed,
                                            const std::string& present) {
  if (resumed.model_config.empty()) return {};
  of_checkpoint(resumed.folder, "model's config", [&] {
    if (!Json::parse(resumed.model_config).is_object()) {
      throw Error(ErrorCategory::kCheckpoint, "it is no JSON object");
    }
  });
  return model_changes(resumed.model_config, present);
}

// True when a step's learning rate changes with the run's length. Some schedules do not depend on
// it. The stable part of warmup_stable_decay does not either, because it is meant to be extended.
bool depends_on_length(const ScheduleSection& schedule, std::int64_t step, std::int64_t before,
                       std::int64_t now) {
  if (num_warmup_steps(schedule, before) != num_warmup_steps(schedule, now)) return true;
  switch (schedule.name) {
    case ScheduleKind::kConstant:
    case ScheduleKind::kInverseSqrt:
      return false;
    case ScheduleKind::kWarmupStableDecay:
      return step > before - num_decay_steps(schedule, before) ||
             step > now - num_decay_steps(schedule, now);
    default:
      return true;
  }
}

// Compares lengths that no changed key or batch explains: earlier versions used run.max_steps as a
// limit of the epochs' steps.
void compare_lengths(const ResumePoint& resumed, const CurrentSettings& present, bool same_batches,
                     Comparison& comparison) {
  const ScheduleSection& schedule = present.config.schedule;
  if (resumed.total_steps == present.total_steps || resumed.total_steps == 0) return;
  if (!depends_on_length(schedule, resumed.step, resumed.total_steps, present.total_steps)) return;
  const std::size_t num_changes = comparison.num_changes();
  comparison.compare("run.num_epochs");
  comparison.compare("run.max_steps");
  if (comparison.num_changes() > num_changes || !same_batches) return;
  comparison.add({"run.max_steps", std::to_string(resumed.total_steps) + " steps in all",
                  std::to_string(present.total_steps) + " steps in all"});
}

}  // namespace

std::vector<SettingChange> changed_settings(const ResumePoint& resumed,
                                            const CurrentSettings& present) {
  Comparison comparison(
      of_checkpoint(resumed.folder, "configuration",
                    [&] { return values_of(resumed.config_yaml, "config_yaml"); }),
      values_of(dump_config(present.config), "this run"));
  const auto batches = changes_of(resumed.header.settings, present.plan);
  for (const SettingChange& change : batches) comparison.add(change);
  if (resumed.config_yaml.empty()) return comparison.take();
  of_checkpoint(resumed.folder, "data.train", [&] { comparison.compare_loss_weights(); });
  for (SettingChange& change : changes_of_model(resumed, present.model_config)) {
    comparison.add(std::move(change));
  }
  const bool decays = present.config.schedule.name == ScheduleKind::kWarmupStableDecay;
  for (const char* key : kKeysFixedOnResume) {
    const bool is_of_decay = std::string_view(key).starts_with("schedule.decay_");
    const bool is_of_adapter = std::string_view(key).starts_with("adapter.");
    if (is_of_adapter && comparison.has_adapter_path()) continue;
    if (decays || !is_of_decay) comparison.compare(key);
  }
  comparison.compare_states();
  compare_lengths(resumed, present, batches.empty(), comparison);
  return comparison.take();
}

std::span<const char* const> keys_fixed_on_resume() {
  return kKeysFixedOnResume;
}

void check_model_size(const ResumePoint& resumed, const std::string& present_model_config) {
  const auto changes = changes_of_model(resumed, present_model_config);
  if (changes.empty()) return;
  const std::int64_t saved = of_checkpoint(resumed.folder, "model's config", [&] {
    return num_parameters(parse_decoder_config(resumed.model_config));
  });
  const std::int64_t present = num_parameters(parse_decoder_config(present_model_config));
  if (saved == present) return;
  std::vector<std::string> texts;
  for (const SettingChange& change : changes) {
    texts.push_back(fmt::format("{}, this run has {}", change.saved, change.present));
  }
  throw Error(ErrorCategory::kCheckpoint,
              fmt::format("{} holds a model of {} parameters, this run's has {}: {}",
                          resumed.folder, saved, present, fmt::join(texts, "; ")),
              "Restore the model section, or give this run its own run.output. To continue with "
              "another vocabulary, `packtrain export` the checkpoint and start a run from that "
              "folder: model.path, model.resize_vocabulary.");
}

std::string unread_model_path(const ResumePoint& resumed, const Config& present) {
  if (resumed.config_yaml.empty() || trains_adapter(present)) return "";
  const Values values = of_checkpoint(resumed.folder, "configuration", [&] {
    return values_of(resumed.config_yaml, "config_yaml");
  });
  const auto saved = values.find("model.path");
  const Json now = values_of(dump_config(present), "this run").at("model.path");
  if (saved == values.end() || saved->second == now) return "";
  return fmt::format(
      "{} was saved with model.path: {}, this run has {}: the weights are those of the checkpoint\n"
      "  To train other weights, give this run its own run.output.",
      resumed.folder, saved->second.dump(), now.dump());
}

}  // namespace packtrain
