// Fields whose values are names.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "framework/config/field.h"
#include "framework/core/nearest.h"

namespace packtrain {
namespace {

// Values of other trainers and our names for them, for keys that accept our names.
constexpr std::pair<const char*, const char*> kOtherValues[] = {
    {"float32", "fp32"},
    {"bfloat16", "bf16"},
    {"wsd", "warmup_stable_decay"},
    {"constant_with_warmup", "constant"},
    {"cosine_with_min_lr", "cosine"},
    {"inverse_square_root", "inverse_sqrt"},
    {"one_minus_sqrt", "1-sqrt"},
    {"sqrt", "1-sqrt"},
};

std::optional<std::string> our_value(const std::string& got, std::span<const std::string> names) {
  for (const auto& [other, ours] : kOtherValues) {
    if (got == other && std::ranges::find(names, ours) != names.end()) return ours;
  }
  return nearest_name(got, names);
}

}  // namespace

std::string one_of(std::span<const std::string> names) {
  return fmt::format("one of {}", fmt::join(names, ", "));
}

std::size_t read_choice(const Setting& setting, std::span<const std::string> names) {
  if (!setting.value.is_string()) reject(setting, one_of(names));
  const std::string got = setting.value.get<std::string>();
  const auto found = std::find(names.begin(), names.end(), got);
  if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
  const std::optional<std::string> near = our_value(got, names);
  reject(setting, one_of(names), near ? fmt::format("Did you mean {}?", *near) : "");
}

std::string list_of(std::span<const std::string> names) {
  return fmt::format("a list of {}, or one of them", fmt::join(names, ", "));
}

std::vector<std::size_t> read_choices(const Setting& setting, std::span<const std::string> names) {
  if (setting.value.is_string()) return {read_choice(setting, names)};
  if (!setting.value.is_array()) reject(setting, list_of(names));
  std::vector<std::size_t> found;
  Setting element = setting;
  for (const auto& value : setting.value) {
    element.value = value;
    const std::size_t index = read_choice(element, names);
    if (std::ranges::find(found, index) != found.end()) {
      reject(setting, fmt::format("{} once", names[index]));
    }
    found.push_back(index);
  }
  return found;
}

std::string write_names(const std::vector<std::string>& names) {
  return fmt::format("[{}]", fmt::join(names, ", "));
}

}  // namespace packtrain
