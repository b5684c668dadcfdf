// Parts of the messages of checks between settings.
#pragma once

#include <fmt/format.h>

#include <string>

#include "framework/config/checks.h"
#include "framework/core/error.h"

namespace packtrain {

inline std::string place_of(const char* name, const SettingPlaces& places) {
  const auto place = places.find(name);
  return place == places.end() ? "default" : place->second;
}

// "data.max_length is 4096 (configs/a.yaml:3:15)"
template <class Value>
std::string stated(const char* name, const Value& value, const SettingPlaces& places) {
  return fmt::format("{} is {} ({})", name, value, place_of(name, places));
}

[[noreturn]] inline void fail_check(const std::string& message, const std::string& advice) {
  throw Error(ErrorCategory::kConfig, message, advice);
}

}  // namespace packtrain
