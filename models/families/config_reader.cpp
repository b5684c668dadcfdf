#include "models/families/config_reader.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "framework/core/nearest.h"
#include "models/families/config_changes.h"
#include "models/families/config_keys.h"

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
  std::string message = "model config: key '" + prefix_ + key + "' " + problem;
  for (const std::string& fault : refused_->faults) message += "; " + fault;
  throw Error(ErrorCategory::kConfig, message, refused_->keys.empty() ? kAdvice : advice());
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
  if (!nested.is_object()) fail(key, "is " + nested.dump() + ", want an object or null");
  ConfigReader reader(nested, prefix_ + key + ".");
  reader.refused_ = refused_;
  return reader;
}

void ConfigReader::require(const std::string& key, const nlohmann::json& wanted) {
  if (has(key) && value(key) != wanted) {
    reject(key, "is " + value(key).dump() + ", but only " + wanted.dump() + " is supported");
  }
}

void ConfigReader::ignore(std::initializer_list<const char*> keys) {
  known_.insert(keys.begin(), keys.end());
}

void ConfigReader::ignore_rest() {
  for (const auto& [key, got] : object_.items()) known_.insert(key);
}

void ConfigReader::reject(const std::string& key, const std::string& problem) const {
  const std::string fault = "key '" + prefix_ + key + "' " + problem;
  if (std::ranges::count(refused_->faults, fault) > 0) return;
  refused_->faults.push_back(fault);
  refused_->keys.push_back(prefix_ + key);
}

void ConfigReader::check_key(const std::string& key, const nlohmann::json& got,
                             const std::map<std::string, nlohmann::json>& computed) const {
  if (is_dropout_key(key) && !got.is_null()) {
    if (got.is_number() && got.get<double>() == 0) return;
    reject(key, "is " + got.dump() + ", but no dropout is computed");
    refused_->dropout = true;
    return;
  }
  if (known_.contains(key) || is_bookkeeping(key) || is_off(got)) return;
  const auto same = computed.find(key);
  if (same != computed.end()) {
    if (same->second == got) return;
    return reject(key, "is " + got.dump() + ", but only " + same->second.dump() + " is supported");
  }
  const auto meant = meant_by(key);
  if (prefix_.empty() && !meant && !may_change_model(key)) return;
  reject(key, "is not one that this model family honours (value " + got.dump() +
                  ", wanted none or null" +
                  (meant ? "; is it meant to be '" + prefix_ + *meant + "'?)" : ")"));
}

std::optional<std::string> ConfigReader::meant_by(const std::string& key) const {
  const std::vector<std::string> known(known_.begin(), known_.end());
  const auto nearest = nearest_name(key, known);
  return nearest && !object_.contains(*nearest) ? nearest : std::nullopt;
}

std::string ConfigReader::advice() const {
  std::string keys;
  for (const std::string& key : refused_->keys) keys += (keys.empty() ? "" : ", ") + key;
  return std::string(refused_->dropout ? "model.dropout: 0 trains the model without it. " : "") +
         "Where a key changes nothing in this model, model.ignore_keys: [" + keys +
         "] leaves it out; models/families says what each family honours.";
}

void ConfigReader::throw_refused() const {
  std::string message = "model config: ";
  const std::size_t count = refused_->faults.size();
  for (std::size_t i = 0; i < count; ++i) message += (i > 0 ? "; " : "") + refused_->faults[i];
  throw Error(ErrorCategory::kConfig, message, advice());
}

void ConfigReader::finish(const std::map<std::string, nlohmann::json>& computed) const {
  for (const auto& [key, got] : object_.items()) check_key(key, got, computed);
  if (prefix_.empty() && !refused_->faults.empty()) throw_refused();
}

}  // namespace packtrain
