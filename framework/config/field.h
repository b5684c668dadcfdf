// A key of the configuration with its member in Config: how to read, check and write it. The
// functions below create the kinds of fields. schema.cpp is the table.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "framework/config/config.h"
#include "framework/config/setting.h"

namespace packtrain {

struct Field {
  std::string name;                          // "section.key"
  std::string wanted;                        // accepted values, as errors show them
  std::function<void(const Setting&)> read;  // sets the member; throws Error(kConfig)
  std::function<std::string()> write;        // the member as YAML that `read` accepts
  std::vector<std::string> choices = {};     // names of all values, for a choice
  std::string unit = {};                     // empty: no unit, or it is in `meaning`
  std::string meaning = {};                  // help text in sentences

  Field in(const char* what) && {
    unit = what;
    return std::move(*this);
  }
  Field means(const char* text) && {
    meaning = text;
    return std::move(*this);
  }
};

constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

// Bounds of a number. `above` and `below` exclude the bound itself.
struct Range {
  double low;
  double high = std::numeric_limits<double>::infinity();
  bool above = false;
  bool below = false;
};

// The members must outlive the field.
Field text(const char* name, std::string& member);         // null is ""
Field needed_text(const char* name, std::string& member);  // not empty
Field text_list(const char* name, std::vector<std::string>& member);
Field flag(const char* name, bool& member);
Field integer(const char* name, std::int64_t& member, std::int64_t low,
              std::int64_t high = kNoLimit);
Field integer(const char* name, int& member, std::int64_t low, std::int64_t high);
Field integer(const char* name, std::optional<std::int64_t>& member, std::int64_t low);
// std::nullopt is `auto`.
Field integer_or_auto(const char* name, std::optional<std::int64_t>& member, std::int64_t low,
                      std::int64_t high);
// A policy, or one for the first layers and one for the rest (recompute.h). std::nullopt is `auto`.
Field recompute_or_auto(const char* name, std::optional<RecomputeByLayer>& member);
// A name of offload_names() or a list of them (offload.h). std::nullopt is `auto`.
Field offload_or_auto(const char* name, std::optional<Offload>& member);
// `default`, `gaussian`, `pissa`, `pissa_niter_N` with N from 0 to 1000, or `loftq`.
Field lora_init(const char* name, LoraInit& member);
// A number of steps >= 0, `epoch`, or a fraction of the run above 0 and below 1.
Field interval(const char* name, Interval& member);
Field unsigned_integer(const char* name, std::uint64_t& member);
Field real(const char* name, double& member, Range range);
Field real(const char* name, std::optional<double>& member, Range range);
Field real_pair(const char* name, std::array<double, 2>& member, Range range);
Field integer_list(const char* name, std::vector<std::int64_t>& member, std::int64_t low);
// A map of names to numbers, in its order.
Field number_map(const char* name, std::vector<NumberOfName>& member, Range range);
// A list of maps with OptimizerGroupSetting's members. null: empty.
Field optimizer_groups(const char* name, std::vector<OptimizerGroupSetting>& member);
Field json_map(const char* name, std::string& member);  // a YAML map, held as JSON text

// A folder, or a list of folders and maps with TrainStore's members. null: empty.
Field train_stores(const char* name, std::vector<TrainStore>& member);

// A folder, or a map of names to folders. null: empty.
Field validation_stores(const char* name, std::vector<ValidationStore>& member);

// "one of a, b, c"
std::string one_of(std::span<const std::string> names);

// Returns the index of the setting's value in `names`. Throws Error(kConfig) when it is not there.
std::size_t read_choice(const Setting& setting, std::span<const std::string> names);

// "a list of a, b, c, or one of them"
std::string list_of(std::span<const std::string> names);
// The same for a value or a list of values, in their order.
std::vector<std::size_t> read_choices(const Setting& setting, std::span<const std::string> names);
std::string write_names(const std::vector<std::string>& names);  // as a YAML list

template <class Value>
using Choices = std::vector<std::pair<std::string, Value>>;

template <class Value>
Field choice(const char* name, Value& member, const Choices<Value>& choices) {
  std::vector<std::string> names;
  for (const auto& [choice_name, value] : choices) names.push_back(choice_name);
  const auto read = [&member, choices, names](const Setting& setting) {
    member = choices[read_choice(setting, names)].second;
  };
  const auto write = [&member, choices] {
    for (const auto& [choice_name, value] : choices) {
      if (value == member) return choice_name;
    }
    return std::string();
  };
  return {.name = name, .wanted = one_of(names), .read = read, .write = write, .choices = names};
}

// One of the names, or a list of them. No name may occur twice.
template <class Value>
Field choice_list(const char* name, std::vector<Value>& member, const Choices<Value>& choices) {
  std::vector<std::string> names;
  for (const auto& [choice_name, value] : choices) names.push_back(choice_name);
  const auto read = [&member, choices, names](const Setting& setting) {
    std::vector<Value> values;
    for (const std::size_t index : read_choices(setting, names)) {
      values.push_back(choices[index].second);
    }
    member = std::move(values);
  };
  const auto write = [&member, choices] {
    std::vector<std::string> written;
    for (const Value& one : member) {
      for (const auto& [choice_name, value] : choices) {
        if (value == one) written.push_back(choice_name);
      }
    }
    return write_names(written);
  };
  return {.name = name, .wanted = list_of(names), .read = read, .write = write, .choices = names};
}

}  // namespace packtrain
