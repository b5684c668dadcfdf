#include "training/checkpoint/json_members.h"

#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>

namespace packtrain {

using nlohmann::json;

const json& member(const json& object, const char* key) {
  if (!object.is_object() || !object.contains(key)) {
    throw ManifestFault(fmt::format("has no '{}'", key));
  }
  return object[key];
}

std::string text_member(const json& object, const char* key) {
  const json& value = member(object, key);
  if (!value.is_string()) throw ManifestFault(fmt::format("'{}' is not a string", key));
  return value.get<std::string>();
}

std::uint64_t unsigned_member(const json& object, const char* key) {
  const json& value = member(object, key);
  if (!value.is_number_unsigned())
    throw ManifestFault(fmt::format("'{}' is not a whole number", key));
  return value.get<std::uint64_t>();
}

std::int64_t count_from(const json& value, const std::string& what) {
  constexpr auto kMax = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > kMax) {
    throw ManifestFault(fmt::format("'{}' is not a whole number", what));
  }
  return value.get<std::int64_t>();
}

std::int64_t count_member(const json& object, const char* key) {
  return count_from(member(object, key), key);
}

double number_from(const json& value, const char* key) {
  if (!value.is_number()) throw ManifestFault(fmt::format("'{}' is not a number", key));
  return value.get<double>();
}

bool flag_member(const json& object, const char* key) {
  if (!object.contains(key)) return false;
  if (!object[key].is_boolean()) throw ManifestFault(fmt::format("'{}' is not true or false", key));
  return object[key].get<bool>();
}

}  // namespace packtrain
