// Reads a Hugging Face config.json strictly: every key is either read, required to have the value
// our decoder computes with, or named as harmless. Whatever is left over is an error.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "framework/support/error.h"

namespace packtrain {

// All errors are Error(kConfig) and name the key (with `prefix`), the value got and the one wanted.
class ConfigReader {
 public:
  explicit ConfigReader(const nlohmann::json& object, std::string prefix = "");

  // A key that is absent or null is not set.
  bool has(const std::string& key);
  // Integers are 1 .. 2^31 - 1; without a fallback the key must be set.
  std::int64_t integer(const std::string& key);
  std::int64_t integer(const std::string& key, std::int64_t fallback);
  // An integer that may be 0.
  std::int64_t count(const std::string& key, std::int64_t fallback);
  // 0 where the key is null; the fallback only where it is absent.
  std::int64_t integer_or_none(const std::string& key, std::int64_t fallback);
  double number(const std::string& key);
  double number(const std::string& key, double fallback);
  // 0 where the key is null; the fallback only where it is absent.
  double number_or_none(const std::string& key, double fallback);
  std::vector<double> numbers(const std::string& key);  // a list, finite
  bool boolean(const std::string& key, bool fallback);
  std::string text(const std::string& key, const std::string& fallback);
  // A list of strings; empty when not set.
  std::vector<std::string> texts(const std::string& key);
  // A list of integers that may be 0; empty when not set.
  std::vector<std::int64_t> counts(const std::string& key);
  // The nested object at `key`; an empty one when not set.
  ConfigReader object(const std::string& key);

  // The key, when set, must have this value: our decoder computes nothing else.
  void require(const std::string& key, const nlohmann::json& wanted);
  void ignore(std::initializer_list<const char*> keys);
  // Throws when a key that is set was neither read nor ignored, and when a dropout is not 0. Keys
  // beginning with `_` are bookkeeping of `transformers` and are ignored.
  void finish() const;

  [[noreturn]] void fail(const std::string& key, const std::string& problem) const;

 private:
  const nlohmann::json& value(const std::string& key);
  void check_known(const std::string& key, const nlohmann::json& got) const;
  void check_dropout(const std::string& key, const nlohmann::json& got) const;

  nlohmann::json object_;
  std::string prefix_;
  std::set<std::string> known_;
};

}  // namespace packtrain
