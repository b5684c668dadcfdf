// Strict reader of a Hugging Face config.json. Each key is read, is required to have the value that
// our decoder computes with, or cannot change the computation (config_keys.h). All remaining keys
// are refused in one error.
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

#include "framework/core/error.h"

namespace packtrain {

// All errors are Error(kConfig). They name the key (with `prefix`), its value and the expected
// value.
class ConfigReader {
 public:
  explicit ConfigReader(const nlohmann::json& object, std::string prefix = "");

  // An absent key and a null key are not set.
  bool has(const std::string& key);
  // Integers are 1 .. 2^31 - 1. Without a fallback the key must be set.
  std::int64_t integer(const std::string& key);
  std::int64_t integer(const std::string& key, std::int64_t fallback);
  // An integer that may be 0.
  std::int64_t count(const std::string& key, std::int64_t fallback);
  // Returns 0 when the key is null, and the fallback when it is absent.
  std::int64_t integer_or_none(const std::string& key, std::int64_t fallback);
  double number(const std::string& key);
  double number(const std::string& key, double fallback);
  // Returns 0 when the key is null, and the fallback when it is absent.
  double number_or_none(const std::string& key, double fallback);
  std::vector<double> numbers(const std::string& key);  // a list of finite numbers
  bool boolean(const std::string& key, bool fallback);
  std::string text(const std::string& key, const std::string& fallback);
  // A list of strings; empty when not set.
  std::vector<std::string> texts(const std::string& key);
  // A list of integers that may be 0; empty when not set.
  std::vector<std::int64_t> counts(const std::string& key);
  // The nested object at `key`; an empty one when not set. finish() of the outermost reader reports
  // the keys that it refuses.
  ConfigReader object(const std::string& key);

  // If set, the key must have this value, because our decoder computes nothing else.
  void require(const std::string& key, const nlohmann::json& wanted);
  void ignore(std::initializer_list<const char*> keys);
  // Ignores all keys of this object. Another key that was refused explains them.
  void ignore_rest();
  // Adds `key` to the error of finish(), which reports all refused keys. Reading continues.
  void reject(const std::string& key, const std::string& problem) const;
  // Refuses each key that was neither read nor ignored, and each dropout that is not 0. Keys that
  // are bookkeeping or off are accepted. Outside of nested objects two more cases are accepted.
  // First, the key has the value that `computed` has under its name. Second, its name has no word
  // of models in it and is no misspelled key of this family. Throws when this is the outermost
  // reader and it or one of its objects refused a key.
  void finish(const std::map<std::string, nlohmann::json>& computed = {}) const;

  // For a value without which reading cannot continue. The error also reports keys refused before.
  [[noreturn]] void fail(const std::string& key, const std::string& problem) const;

 private:
  const nlohmann::json& value(const std::string& key);
  // Refused keys in the order found, shared by a reader and its objects.
  struct Refused {
    std::vector<std::string> faults;
    std::vector<std::string> keys;
    bool dropout = false;
  };
  void check_key(const std::string& key, const nlohmann::json& got,
                 const std::map<std::string, nlohmann::json>& computed) const;
  // The key of this object that `key` is probably a misspelling of, unless both are set.
  std::optional<std::string> meant_by(const std::string& key) const;
  std::string advice() const;
  [[noreturn]] void throw_refused() const;

  nlohmann::json object_;
  std::string prefix_;
  std::set<std::string> known_;
  std::shared_ptr<Refused> refused_ = std::make_shared<Refused>();
};

}  // namespace packtrain
