// Parts of the messages of checks between settings.
#pragma once

#include <fmt/format.h>

#include <string>

#include "framework/config/checks.h"
#include "framework/config/load.h"
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

inline bool is_changed(const Config& config, const char* key) {
  return config_value(config, key) != config_value(Config(), key);
}

// "KEY is VALUE (PLACE), but READER is VALUE (PLACE), which does not read it"
[[noreturn]] inline void fail_unread(const Config& config, const char* key, const char* reader,
                                     const std::string& advice, const SettingPlaces& places) {
  fail_check(fmt::format("{}, but {}, which does not read it",
                         stated(key, config_value(config, key), places),
                         stated(reader, config_value(config, reader), places)),
             "Leave it out, or set " + advice + ".");
}

// A resolved configuration has all keys, so that only values that differ from the default count.
inline void fail_if_changed(const Config& config, const char* key, const char* reader,
                            const char* wanted, const SettingPlaces& places) {
  if (is_changed(config, key)) {
    fail_unread(config, key, reader, fmt::format("{}: {}", reader, wanted), places);
  }
}

}  // namespace packtrain
