#include "models/families/unknown_type.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "framework/core/error.h"
#include "models/families/family.h"

namespace packtrain {
namespace {

// Holds what a family says of a config. Without a fault the family reads all keys.
struct Reading {
  std::string_view family;
  std::string faults;
  std::int64_t num_faults = 0;
};

std::int64_t count(std::string_view text, std::string_view part) {
  std::int64_t found = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++found;
  return found;
}

Reading read_as(const Family& family, const nlohmann::json& config) {
  constexpr std::string_view kPrefix = "model config: ";
  Reading reading{family.model_type, "", 0};
  try {
    family.parse(config);
  } catch (const Error& error) {
    std::string_view faults = error.message();
    if (faults.starts_with(kPrefix)) faults.remove_prefix(kPrefix.size());
    reading.faults = faults;
    reading.num_faults = count(faults, "key '");
  }
  return reading;
}

// How many letters the type and a name have in common at their beginnings, less the letters of the
// name after them.
std::int64_t likeness(std::string_view family, std::string_view type) {
  const auto* end_of_common = std::ranges::mismatch(family, type).in1;
  return (end_of_common - family.begin()) - (family.end() - end_of_common);
}

// The family with the fewest faults; of equals the one whose name is most like the type.
Reading nearest_reading(const nlohmann::json& config, std::string_view type) {
  Reading nearest;
  for (const Family& family : families()) {
    Reading reading = read_as(family, config);
    const bool is_nearer = nearest.family.empty() || reading.num_faults < nearest.num_faults ||
                           (reading.num_faults == nearest.num_faults &&
                            likeness(reading.family, type) > likeness(nearest.family, type));
    if (is_nearer) nearest = std::move(reading);
  }
  return nearest;
}

// Types that look like a family and compute something else.
struct NotComputed {
  std::string_view model_type;
  std::string_view what;
};
constexpr NotComputed kNotComputed[] = {
    {"deepseek_v32", "an indexer chooses the keys of each query (sparse attention)"},
    {"deepseek_v4", "an indexer chooses the keys of each query (sparse attention)"},
    {"glm_moe_dsa", "an indexer chooses the keys of each query (sparse attention)"},
};

void refuse_what_is_not_computed(const std::string& type) {
  const auto* found = std::ranges::find(kNotComputed, type, &NotComputed::model_type);
  if (found == std::end(kNotComputed)) return;
  throw Error(ErrorCategory::kConfig,
              "model config: model_type is '" + type +
                  "', whose attention packtrain does not "
                  "compute: " +
                  std::string(found->what),
              "Train a model with dense attention, such as one of type deepseek_v3 or "
              "glm4_moe_lite. `packtrain families` lists all families.");
}

}  // namespace

void refuse_unknown_type(const nlohmann::json& config) {
  const std::string type = config["model_type"].get<std::string>();
  refuse_what_is_not_computed(type);
  const Reading nearest = nearest_reading(config, type);
  std::string known;
  for (const Family& family : families()) {
    known += (known.empty() ? "" : ", ") + std::string(family.model_type);
  }
  const std::string name(nearest.family);
  throw Error(ErrorCategory::kConfig,
              "model config: model_type is '" + type + "', want one of: " + known +
                  ". The nearest is '" + name + "', " +
                  (nearest.faults.empty() ? "which reads all keys of this config"
                                          : "for which " + nearest.faults),
              "Where the model computes what '" + name +
                  "' computes, set model_type to it. `packtrain families` lists all families.");
}

}  // namespace packtrain
