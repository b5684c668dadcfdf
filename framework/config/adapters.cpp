#include "framework/config/adapters.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "framework/config/load.h"
#include "framework/config/schema.h"
#include "framework/core/error.h"
#include "framework/core/nearest.h"

namespace packtrain {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kWanted =
    "a list of maps, each with a name of its own, like [{name: de, rank: 16, train: stores/de}]";
constexpr const char* kName = "name";
constexpr const char* kSchedule = "schedule";
constexpr std::size_t kLongestName = 64;

constexpr std::array kOwnKeys = {
    "data.train",
    "data.validation",
    "adapter.rank",
    "adapter.alpha",
    "adapter.targets",
    "adapter.exclude",
    "adapter.dropout",
    "adapter.init",
    "adapter.use_rslora",
    "adapter.layers_to_transform",
    "adapter.rank_pattern",
    "adapter.alpha_pattern",
    "batch.global_batch_size",
    "batch.global_batch_tokens",
    "optimizer.learning_rate",
    "optimizer.max_grad_norm",
    "optimizer.weight_decay",
    "optimizer.betas",
    "optimizer.epsilon",
};

std::string key_of(std::string_view full) {
  return std::string(full.substr(full.find('.') + 1));
}

std::vector<std::string> entry_keys() {
  std::vector<std::string> keys = {kName, kSchedule};
  for (const char* full : kOwnKeys) keys.push_back(key_of(full));
  return keys;
}

[[noreturn]] void reject_entry(const Setting& setting, const std::string& what,
                               std::string advice = "") {
  reject_at(setting.where, setting.name() + ": " + what, std::move(advice));
}

[[noreturn]] void reject_entry_key(const Setting& setting, const std::string& adapter,
                                   const std::string& key) {
  const std::vector<std::string> known = entry_keys();
  const auto nearest = nearest_name(key, known);
  reject_entry(setting, fmt::format("'{}' of '{}' is no key of an adapter", key, adapter),
               nearest ? fmt::format("Did you mean {}?", *nearest)
                       : fmt::format("Keys: {}.", fmt::join(known, ", ")));
}

// It ends the names of parameters, and is the name of a folder.
bool is_adapter_name(const std::string& name) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  };
  return !name.empty() && name.size() <= kLongestName && std::ranges::all_of(name, is_plain);
}

// Reads one key into `scratch` and keeps it as dump_config writes it.
void read_key(const Setting& list, const std::string& full, const Json& value,
              NamedAdapter& adapter) {
  Config scratch;
  for (const Field& field : fields_of(scratch)) {
    if (field.name != full) continue;
    Setting setting = list;
    setting.section = adapter_label(adapter.name);
    setting.key = key_of(full);
    setting.value = value;
    setting.text = value.is_string() ? value.get<std::string>() : value.dump();
    field.read(setting);
    adapter.settings.emplace_back(full, field.write());
    return;
  }
}

void read_schedule(const Setting& list, const Json& value, NamedAdapter& adapter) {
  if (!value.is_object()) reject_entry_key(list, adapter.name, kSchedule);
  Config scratch;
  const std::vector<Field> fields = fields_of(scratch);
  for (const auto& [key, part] : value.items()) {
    const std::string full = fmt::format("{}.{}", kSchedule, key);
    if (std::ranges::find(fields, full, &Field::name) == fields.end()) {
      reject_entry_key(list, adapter.name, full);
    }
    read_key(list, full, part, adapter);
  }
}

NamedAdapter read_adapter_entry(const Setting& list, const Json& entry) {
  if (!entry.is_object() || !entry.contains(kName) || !entry[kName].is_string()) {
    reject(list, kWanted, "Each adapter has a name.");
  }
  NamedAdapter adapter{entry[kName].get<std::string>(), {}};
  if (!is_adapter_name(adapter.name)) {
    reject(list, kWanted,
           "'" + adapter.name + "' is no name: 1 to 64 letters, digits, and any of _ -");
  }
  for (const auto& [key, value] : entry.items()) {
    if (key == kName) continue;
    if (key == kSchedule) {
      read_schedule(list, value, adapter);
      continue;
    }
    const auto full = std::ranges::find_if(
        kOwnKeys, [&key = key](const char* own) { return key_of(own) == key; });
    if (full == kOwnKeys.end()) reject_entry_key(list, adapter.name, key);
    read_key(list, *full, value, adapter);
  }
  return adapter;
}

std::string entry_text(const NamedAdapter& adapter) {
  std::vector<std::string> parts = {fmt::format("{}: {}", kName, Json(adapter.name).dump())};
  std::vector<std::string> schedule;
  for (const auto& [full, value] : adapter.settings) {
    const bool is_of_schedule = full.starts_with(std::string(kSchedule) + ".");
    (is_of_schedule ? schedule : parts).push_back(fmt::format("{}: {}", key_of(full), value));
  }
  if (!schedule.empty()) {
    parts.push_back(fmt::format("{}: {{{}}}", kSchedule, fmt::join(schedule, ", ")));
  }
  return fmt::format("{{{}}}", fmt::join(parts, ", "));
}

// A size of the step replaces the other one.
void set_own_size(const std::string& key, Config& config) {
  if (key == "batch.global_batch_size") config.batch.global_batch_tokens.reset();
  if (key == "batch.global_batch_tokens") config.batch.global_batch_size.reset();
}

Config config_of(const Config& all, const NamedAdapter& adapter) {
  Config config = all;
  config.adapters.clear();
  config.adapter.kind = AdapterKind::kLora;
  config.adapter.name = adapter.name;
  const std::vector<Field> fields = fields_of(config);
  for (const auto& [key, value] : adapter.settings) {
    set_own_size(key, config);
    std::ranges::find(fields, key, &Field::name)->read(read_override(key + "=" + value));
  }
  return config;
}

[[noreturn]] void refuse(const std::string& key, const std::string& advice) {
  throw Error(ErrorCategory::kConfig,
              fmt::format("{} is not possible with several adapters (adapters)", key), advice);
}

}  // namespace

Field adapter_list(const char* name, std::vector<NamedAdapter>& member) {
  const auto read = [&member](const Setting& setting) {
    member.clear();
    if (setting.value.is_null()) return;
    if (!setting.value.is_array()) reject(setting, kWanted);
    for (const Json& entry : setting.value) {
      NamedAdapter adapter = read_adapter_entry(setting, entry);
      if (std::ranges::find(member, adapter.name, &NamedAdapter::name) != member.end()) {
        reject_entry(setting, fmt::format("two adapters are named '{}'", adapter.name),
                     "Give each a name of its own: initial values and files depend on it.");
      }
      member.push_back(std::move(adapter));
    }
  };
  const auto write = [&member] {
    std::vector<std::string> entries;
    for (const NamedAdapter& adapter : member) entries.push_back(entry_text(adapter));
    return fmt::format("[{}]", fmt::join(entries, ", "));
  };
  return {.name = name, .wanted = kWanted, .read = read, .write = write};
}

bool is_adapter_key(std::string_view key) {
  return std::ranges::find(kOwnKeys, key) != kOwnKeys.end() ||
         key.starts_with(std::string(kSchedule) + ".");
}

std::vector<Config> adapter_configs(const Config& config) {
  if (config.adapters.empty()) return {config};
  std::vector<Config> configs;
  for (const NamedAdapter& adapter : config.adapters) configs.push_back(config_of(config, adapter));
  return configs;
}

bool sets_adapter_key(const Config& config, const std::string& key) {
  const std::vector<std::string>& set = config.adapter.set_keys;
  return std::ranges::find(set, key) != set.end() ||
         config_value(config, key) != config_value(Config(), key);
}

bool has_validation(const Config& config) {
  return std::ranges::any_of(adapter_configs(config),
                             [](const Config& own) { return !own.data.validation.empty(); });
}

std::string adapter_label(const std::string& name) {
  return fmt::format("adapters: '{}'", name);
}

void check_adapters(const Config& config) {
  if (!config.adapter.name.empty() && !is_adapter_name(config.adapter.name)) {
    throw Error(ErrorCategory::kConfig,
                fmt::format("adapter.name is '{}', wanted 1 to 64 letters, digits, and any of _ -",
                            config.adapter.name),
                "Files and parameters are named after it.");
  }
  if (config.adapters.empty()) return;
  if (!config.adapter.path.empty()) {
    refuse("adapter.path", "Train an adapter further in a run of its own.");
  }
  if (!config.adapter.name.empty()) refuse("adapter.name", "Each entry of adapters has its name.");
  for (const Config& own : adapter_configs(config)) {
    if (!own.adapter.init.is_pissa()) continue;
    refuse("adapter.init: pissa", "It subtracts from the weights, which all adapters share.");
  }
  if (config.adapter.use_dora) {
    refuse("adapter.use_dora", "Train each such adapter in a run of its own, or set it to false.");
  }
  if (!config.adapter.save.empty()) {
    refuse("adapter.save", "All adapters share the model's own weights, which stay frozen.");
  }
  if (config.checkpoint.keep_best > 0) {
    refuse("checkpoint.keep_best", "Their best steps differ: set it to 0.");
  }
  if (config.run.early_stopping_patience > 0) {
    refuse("run.early_stopping_patience", "Their best steps differ: set it to 0.");
  }
  if (!config.samples.steps.is_never() && !has_validation(config)) {
    refuse("samples.steps without a validation store", "Set data.validation, or samples.steps: 0.");
  }
  if (config.batch.cost == CostSource::kMeasured) {
    refuse("batch.cost: measured", "Set batch.cost: flops.");
  }
  if (rounds_moments_at_random(config.optimizer)) {
    const bool is_int8 = config.optimizer.moments == Moments::kInt8;
    refuse(fmt::format("optimizer.moments: {}", is_int8 ? "int8" : "bf16"),
           "Moments in bf16 have random bits that depend on all parameters; set fp32.");
  }
  if (config.precision.master == Precision::kBFloat16) {
    refuse("precision.master: bf16",
           "Updates of bf16 weights have random bits that depend on all parameters; set fp32.");
  }
  if (config.guard.non_finite == NonFinite::kRewind) {
    refuse("guard.non_finite: rewind", "Set stop or skip.");
  }
  if (config.metrics.example_losses) refuse("metrics.example_losses", "Set it to false.");
}

void require_one_adapter(const Config& config, const std::string& what) {
  if (config.adapters.empty()) return;
  throw Error(ErrorCategory::kConfig, fmt::format("adapters: {} serves one adapter alone", what),
              "Give one of them as adapter, with its name as adapter.name.");
}

}  // namespace packtrain
