#include "models/families/config_reader.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "models/families/config_changes.h"

namespace packtrain {
namespace {

constexpr const char* kAdvice = "see models/families for what each family honours";

}  // namespace

ConfigReader::ConfigReader(const nlohmann::json& object, std::string prefix)
    : object_(object), prefix_(std::move(prefix)) {
  if (!object_.is_object()) {
    throw Error(ErrorCategory::kConfig, "model config: " + prefix_ + " is not an object, got " +
                                            std::string(object_.type_name()));
  }
}

void ConfigReader::fail(const std::string& key, const std::string& problem) const {
  throw Error(ErrorCategory::kConfig, "model config: key '" + prefix_ + key + "' " + problem,
              kAdvice);
}

bool ConfigReader::has(const std::string& key) {
  known_.insert(key);
  const auto found = object_.find(key);
  return found != object_.end() && !found->is_null();
}

const nlohmann::json& ConfigReader::value(const std::string& key) {
  if (!has(key)) {
    fail(key, "is missing");
  }
  return object_.at(key);
}

std::int64_t ConfigReader::integer(const std::string& key) {
  const nlohmann::json& got = value(key);
  const bool in_range = got.is_number_integer() && got.get<std::int64_t>() >= 1 &&
                        got.get<std::int64_t>() <= std::numeric_limits<std::int32_t>::max();
  if (!in_range) {
    fail(key, "is " + got.dump() + ", want an integer from 1 to 2147483647");
  }
  return got.get<std::int64_t>();
}

std::int64_t ConfigReader::integer(const std::string& key, std::int64_t fallback) {
  return has(key) ? integer(key) : fallback;
}

std::int64_t ConfigReader::count(const std::string& key, std::int64_t fallback) {
  return has(key) && value(key) == 0 ? 0 : integer(key, fallback);
}

std::int64_t ConfigReader::integer_or_none(const std::string& key, std::int64_t fallback) {
  return object_.contains(key) && !has(key) ? 0 : integer(key, fallback);
}

double ConfigReader::number(const std::string& key) {
  const nlohmann::json& got = value(key);
  if (!got.is_number() || !std::isfinite(got.get<double>())) {
    fail(key, "is " + got.dump() + ", want a finite number");
  }
  return got.get<double>();
}

double ConfigReader::number(const std::string& key, double fallback) {
  return has(key) ? number(key) : fallback;
}

double ConfigReader::number_or_none(const std::string& key, double fallback) {
  return object_.contains(key) && !has(key) ? 0 : number(key, fallback);
}

std::vector<double> ConfigReader::numbers(const std::string& key) {
  const nlohmann::json& got = value(key);
  const bool all_finite =
      got.is_array() && std::ranges::all_of(got, [](const nlohmann::json& element) {
        return element.is_number() && std::isfinite(element.get<double>());
      });
  if (!all_finite) {
    fail(key, "is " + got.dump() + ", want a list of finite numbers");
  }
  return got.get<std::vector<double>>();
}

bool ConfigReader::boolean(const std::string& key, bool fallback) {
  if (!has(key)) {
    return fallback;
  }
  const nlohmann::json& got = value(key);
  if (!got.is_boolean()) {
    fail(key, "is " + got.dump() + ", want true or false");
  }
  return got.get<bool>();
}

std::string ConfigReader::text(const std::string& key, const std::string& fallback) {
  if (!has(key)) {
    return fallback;
  }
  const nlohmann::json& got = value(key);
  if (!got.is_string()) {
    fail(key, "is " + got.dump() + ", want a string");
  }
  return got.get<std::string>();
}

std::vector<std::string> ConfigReader::texts(const std::string& key) {
  if (!has(key)) {
    return {};
  }
  std::vector<std::string> texts;
  const nlohmann::json& got = value(key);
  bool is_list = got.is_array();
  for (const nlohmann::json& item : got) {
    is_list = is_list && item.is_string();
    if (is_list) texts.push_back(item.get<std::string>());
  }
  if (!is_list) {
    fail(key, "is " + got.dump() + ", want a list of strings");
  }
  return texts;
}

std::vector<std::int64_t> ConfigReader::counts(const std::string& key) {
  std::vector<std::int64_t> counts;
  if (!has(key)) return counts;
  const nlohmann::json& got = value(key);
  bool is_list = got.is_array();
  for (const nlohmann::json& item : got) {
    is_list = is_list && item.is_number_unsigned();
    if (is_list) counts.push_back(item.get<std::int64_t>());
  }
  if (!is_list) fail(key, "is " + got.dump() + ", want a list of integers from 0 on");
  return counts;
}

ConfigReader ConfigReader::object(const std::string& key) {
  const nlohmann::json& nested = has(key) ? value(key) : nlohmann::json::object();
  return ConfigReader(nested, prefix_ + key + ".");
}

void ConfigReader::require(const std::string& key, const nlohmann::json& wanted) {
  if (has(key) && value(key) != wanted) {
    fail(key, "is " + value(key).dump() + ", but only " + wanted.dump() + " is supported");
  }
}

void ConfigReader::ignore(std::initializer_list<const char*> keys) {
  known_.insert(keys.begin(), keys.end());
}

void ConfigReader::check_dropout(const std::string& key, const nlohmann::json& got) const {
  if (got.is_number() && got.get<double>() == 0) return;
  throw Error(
      ErrorCategory::kConfig,
      "model config: key '" + prefix_ + key + "' is " + got.dump() + ", but no dropout is computed",
      "model.dropout: 0 trains the model without it.");
}

void ConfigReader::check_known(const std::string& key, const nlohmann::json& got) const {
  if (got.is_null() || key.starts_with('_') || known_.contains(key)) return;
  if (key == "quantization_config" || key == "compression_config") {
    throw Error(ErrorCategory::kConfig,
                "model config: key '" + prefix_ + key +
                    "' says that the weights are quantized (value " + got.dump() + ")",
                "Quantized weights cannot be trained: use the unquantized model.");
  }
  fail(key, "is not one that this model family honours (value " + got.dump() + ")");
}

void ConfigReader::finish() const {
  for (const auto& [key, got] : object_.items()) {
    if (is_dropout_key(key) && !got.is_null()) {
      check_dropout(key, got);
    } else {
      check_known(key, got);
    }
  }
}

}  // namespace packtrain
