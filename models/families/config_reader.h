// Reads a Hugging Face config.json strictly: every key is read, required to have the value our
// decoder computes with, or cannot change what is computed (config_keys.h). Whatever is left over
// is refused, all such keys in one error.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
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
  // The nested object at `key`; an empty one when not set. What it refuses is told by finish() of
  // the outermost reader.
  ConfigReader object(const std::string& key);

  // The key, when set, must have this value: our decoder computes nothing else.
  void require(const std::string& key, const nlohmann::json& wanted);
  void ignore(std::initializer_list<const char*> keys);
  // All keys of this object: one that was refused says what they mean.
  void ignore_rest();
  // Tells of `key` in the error of finish(), beside whatever else is refused; reading goes on.
  void refuse(const std::string& key, const std::string& problem) const;
  // Refuses each key that was neither read nor ignored, unless it is bookkeeping, off, says
  // what `computed` has under its name, or has no word of models in its name and is no misspelled
  // key of this family (of nested objects: unless it is bookkeeping or off); and each dropout that
  // is not 0. Throws when this is the outermost reader and it or one of its objects refused a key.
  void finish(const std::map<std::string, nlohmann::json>& computed = {}) const;

  // For a value that nothing can be read on with; the error tells of what was refused before, too.
  [[noreturn]] void fail(const std::string& key, const std::string& problem) const;

 private:
  const nlohmann::json& value(const std::string& key);
  // What was refused, in the order found; one for a reader and its objects.
  struct Refused {
    std::vector<std::string> faults;
    std::vector<std::string> keys;
    bool dropout = false;
  };
  void check_key(const std::string& key, const nlohmann::json& got,
                 const std::map<std::string, nlohmann::json>& computed) const;
  // The key of this object that `key` seems to mean, unless that is there too.
  std::optional<std::string> meant_by(const std::string& key) const;
  std::string advice() const;
  [[noreturn]] void throw_refused() const;

  nlohmann::json object_;
  std::string prefix_;
  std::set<std::string> known_;
  std::shared_ptr<Refused> refused_ = std::make_shared<Refused>();
};

}  // namespace packtrain
