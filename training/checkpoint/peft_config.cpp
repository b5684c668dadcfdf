#include "training/checkpoint/peft_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>

#include "framework/core/error.h"
#include "framework/core/json.h"

namespace packtrain {
namespace {

using Json = nlohmann::ordered_json;  // the first match of rank_pattern counts

constexpr std::int64_t kMostRank = 1 << 20;

// Options that change nothing here: names, versions, and how initial values were made.
constexpr const char* kIgnored[] = {"auto_mapping",      "base_model_name_or_path",
                                    "eva_config",        "inference_mode",
                                    "layers_pattern",    "loftq_config",
                                    "megatron_core",     "peft_version",
                                    "qalora_group_size", "revision"};
// Initial values that leave the base model's weights as they are. Others subtract from them.
constexpr std::string_view kInitializations[] = {"gaussian", "eva", "orthogonal"};

std::string shown(const Json& value) {
  constexpr std::size_t kMostLetters = 200;
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > kMostLetters) text = text.substr(0, kMostLetters) + "...";
  return text;
}

bool is_off(const Json& value) {
  return value.is_null() || (value.is_structured() && value.empty()) ||
         (value.is_boolean() && !value.get<bool>());
}

// A name or path of modules, in which a regular expression means nothing else.
bool is_plain(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, [](char letter) {
    return std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '_' ||
           letter == '-' || letter == '.';
  });
}

// A pattern without PEFT's start of a path (^) or any text before a name (.*\.).
std::string without_start(const std::string& pattern) {
  for (const std::string_view start : {"^", R"(.*\.)"}) {
    if (pattern.starts_with(start)) return pattern.substr(start.size());
  }
  return pattern;
}

class Reader {
 public:
  Reader(const Json& object, const std::string& name) : object_(object), name_(name) {}

  // Null when the key is not set.
  const Json* find(const char* key) {
    known_.insert(key);
    const auto found = object_.find(key);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }

  [[noreturn]] void fail(const std::string& key, const Json& value, const std::string& wanted,
                         const std::string& advice = "") const {
    throw Error(ErrorCategory::kConfig,
                fmt::format("{}: '{}' is {}, want {}", name_, key, shown(value), wanted), advice);
  }

  std::int64_t rank(const std::string& key, const Json& value) const {
    if (!value.is_number_integer() || value < 1 || value > kMostRank) {
      fail(key, value, fmt::format("a whole number from 1 to {}", kMostRank));
    }
    return value.get<std::int64_t>();
  }

  double alpha(const std::string& key, const Json& value) const {
    if (!value.is_number() || !std::isfinite(value.get<double>()) || value.get<double>() <= 0) {
      fail(key, value, "a number above 0");
    }
    return value.get<double>();
  }

  double dropout(const char* key) {
    const Json* value = find(key);
    if (value == nullptr) return 0;
    const double share = value->is_number() ? value->get<double>() : -1;
    if (!(share >= 0 && share < 1)) fail(key, *value, "a number from 0 to below 1");
    return share;
  }

  bool flag(const char* key) {
    const Json* value = find(key);
    if (value != nullptr && !value->is_boolean()) fail(key, *value, "true or false");
    return value != nullptr && value->get<bool>();
  }

  std::vector<std::string> names(const char* key) {
    const Json* value = find(key);
    std::vector<std::string> list;
    if (value == nullptr) return list;
    const auto fail_names = [&] { fail(key, *value, "a list of names of modules"); };
    if (!value->is_array()) fail_names();
    for (const Json& element : *value) {
      if (!element.is_string() || !is_plain(element.get<std::string>())) fail_names();
      list.push_back(element.get<std::string>());
    }
    return list;
  }

  std::vector<std::int64_t> layers(const char* key) {
    const Json* value = find(key);
    std::vector<std::int64_t> list;
    if (value == nullptr) return list;
    const auto add = [&](const Json& layer) {
      if (!layer.is_number_integer() || layer < 0 || layer > kMostRank) {
        fail(key, *value, "a list of numbers of layers");
      }
      list.push_back(layer.get<std::int64_t>());
    };
    if (!value->is_array()) {
      add(*value);
    } else {
      for (const Json& layer : *value) add(layer);
    }
    return list;
  }

  // Pairs of a name and what `convert` makes of its value.
  template <class Value, class Convert>
  std::vector<std::pair<std::string, Value>> pattern(const char* key, const Convert& convert) {
    const Json* value = find(key);
    std::vector<std::pair<std::string, Value>> list;
    if (value == nullptr) return list;
    if (!value->is_object()) fail(key, *value, "an object: names of modules and their values");
    for (const auto& [name, entry] : value->items()) {
      const std::string stem = without_start(name);
      if (!is_plain(stem)) {
        fail(fmt::format("{}.{}", key, name), entry, "a plain name of modules as the key",
             "Regular expressions are not evaluated: write one key for each module.");
      }
      list.emplace_back(stem, convert(fmt::format("{}.{}", key, name), entry));
    }
    return list;
  }

  // The key must have one of these values, because nothing else is computed.
  void require(const char* key, std::initializer_list<Json> allowed, const char* advice = "") {
    const Json* value = find(key);
    if (value == nullptr || std::ranges::find(allowed, *value) != allowed.end()) return;
    fail(key, *value, shown(*allowed.begin()), advice);
  }

  void ignore(const char* key) { known_.insert(key); }

  void finish() const {
    for (const auto& [key, value] : object_.items()) {
      if (known_.contains(key) || is_off(value)) continue;
      throw Error(ErrorCategory::kConfig,
                  fmt::format("{}: '{}' is {}, an option that packtrain does not compute", name_,
                              key, shown(value)),
                  "Train such an adapter with PEFT, or make one without this option.");
    }
  }

 private:
  const Json& object_;
  const std::string& name_;
  std::set<std::string> known_;
};

LoraInitialization read_initialization(Reader& reader) {
  constexpr const char* kKey = "init_lora_weights";
  const Json* value = reader.find(kKey);
  if (value == nullptr || value->is_boolean()) return LoraInitialization::kDefault;
  const std::string kind = value->is_string() ? value->get<std::string>() : "";
  if (std::ranges::find(kInitializations, kind) == std::end(kInitializations)) {
    reader.fail(kKey, *value, "true, false, gaussian, orthogonal or eva",
                "Such an adapter belongs to a base model with other weights. Save it with PEFT's "
                "path_initial_model_for_weight_conversion.");
  }
  return kind == "gaussian" ? LoraInitialization::kGaussian : LoraInitialization::kDefault;
}

// A text is a regular expression, or all-linear.
void read_targets(Reader& reader, PeftConfig& config) {
  const auto read = [&](const char* key) -> std::optional<std::vector<std::string>> {
    const Json* value = reader.find(key);
    if (value != nullptr && value->is_string()) return std::nullopt;
    return reader.names(key);
  };
  const auto targets = read("target_modules");
  const auto exclude = read("exclude_modules");
  config.options.layers_to_transform = reader.layers("layers_to_transform");
  config.has_target_list = targets && exclude;
  config.options.targets.clear();
  if (!config.has_target_list) {
    config.options.layers_to_transform.clear();
    return;
  }
  config.options.targets = *targets;
  config.options.exclude = *exclude;
}

void read_kind(Reader& reader) {
  const Json* kind = reader.find("peft_type");
  if (kind == nullptr || *kind != "LORA") {
    reader.fail("peft_type", kind == nullptr ? Json() : *kind, "\"LORA\"");
  }
  reader.require("task_type", {"CAUSAL_LM"});
  reader.require("bias", {"none"}, "Biases that are trained with an adapter are not supported.");
  reader.require("fan_in_fan_out", {false, true});  // PEFT goes by the class of the module
}

Json parse_object(const std::string& text, const std::string& name) {
  try {
    check_json(text);
  } catch (const JsonFault& fault) {
    throw Error(ErrorCategory::kConfig, fmt::format("{}: {}", name, fault.what()),
                "Save the adapter again.");
  }
  Json document = Json::parse(text);
  if (!document.is_object()) {
    throw Error(ErrorCategory::kConfig, fmt::format("{}: is no JSON object", name),
                "Save the adapter again.");
  }
  return document;
}

}  // namespace

PeftConfig parse_peft_config(const std::string& text, const std::string& name) {
  constexpr std::int64_t kPeftRank = 8;  // PEFT's own defaults, of r and lora_alpha
  const Json document = parse_object(text, name);
  Reader reader(document, name);
  PeftConfig config;
  LoraOptions& options = config.options;
  read_kind(reader);
  const Json* rank = reader.find("r");
  const Json* alpha = reader.find("lora_alpha");
  options.rank = rank == nullptr ? kPeftRank : reader.rank("r", *rank);
  options.alpha = alpha == nullptr ? kPeftRank : reader.alpha("lora_alpha", *alpha);
  options.use_rslora = reader.flag("use_rslora");
  options.use_dora = reader.flag("use_dora");
  options.dropout = reader.dropout("lora_dropout");
  options.initialization = read_initialization(reader);
  read_targets(reader, config);
  config.target_parameters = reader.names("target_parameters");
  options.rank_pattern = reader.pattern<std::int64_t>(
      "rank_pattern", [&](const auto& key, const Json& value) { return reader.rank(key, value); });
  options.alpha_pattern = reader.pattern<double>(
      "alpha_pattern",
      [&](const auto& key, const Json& value) { return reader.alpha(key, value); });
  options.save = reader.names("modules_to_save");
  config.ensure_weight_tying = reader.flag("ensure_weight_tying");
  for (const char* key : kIgnored) reader.ignore(key);
  reader.finish();
  return config;
}

}  // namespace packtrain
