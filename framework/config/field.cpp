#include "framework/config/field.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "framework/support/error.h"
#include "framework/support/nearest.h"

namespace packtrain {
namespace {

using Json = nlohmann::ordered_json;

std::optional<std::int64_t> as_int64(const Json& value) {
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > std::uint64_t{kNoLimit}) {
    return std::nullopt;
  }
  if (!value.is_number_integer()) return std::nullopt;
  return value.get<std::int64_t>();
}

std::int64_t read_integer(const Setting& setting, std::int64_t low, std::int64_t high,
                          const char* or_what = "") {
  const std::optional<std::int64_t> value = as_int64(setting.value);
  if (value && *value >= low && *value <= high) return *value;
  const std::string range =
      high == kNoLimit ? fmt::format(">= {}", low) : fmt::format("from {} to {}", low, high);
  reject(setting, fmt::format("an integer {}{}", range, or_what));
}

bool inside(double value, const Range& range) {
  const bool low = range.above ? value > range.low : value >= range.low;
  return low && (range.below ? value < range.high : value <= range.high);
}

std::string describe(const Range& range) {
  std::string text = fmt::format("{} {}", range.above ? ">" : ">=", range.low);
  if (range.high < std::numeric_limits<double>::infinity()) {
    text += fmt::format(" and {} {}", range.below ? "<" : "<=", range.high);
  }
  return text;
}

// Plain where YAML reads the very same text back, else as a JSON string, which YAML takes too.
std::string write_text(const std::string& text) {
  constexpr const char* kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-";
  const bool starts_like_a_path =
      !text.empty() && (text[0] == '/' || std::isalpha(static_cast<unsigned char>(text[0])) != 0);
  std::string lower = text;
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const bool is_word = lower == "null" || lower == "true" || lower == "false";
  const bool plain =
      starts_like_a_path && !is_word && text.find_first_not_of(kPlain) == std::string::npos;
  return plain ? text : Json(text).dump();
}

std::string read_text_value(const Setting& setting) {
  if (setting.value.is_null()) return "";
  if (setting.value.is_string()) return setting.value.get<std::string>();
  if (!setting.value.is_primitive()) reject(setting, "text");
  return setting.text;  // a folder may be called 7
}

}  // namespace

Field text(const char* name, std::string& member) {
  return {name, [&member](const Setting& setting) { member = read_text_value(setting); },
          [&member] { return write_text(member); }};
}

Field needed_text(const char* name, std::string& member) {
  Field field = text(name, member);
  field.read = [&member](const Setting& setting) {
    member = read_text_value(setting);
    if (member.empty()) reject(setting, "text that is not empty");
  };
  return field;
}

Field text_list(const char* name, std::vector<std::string>& member) {
  const auto read = [&member](const Setting& setting) {
    const Json& list = setting.value;
    const bool all_text =
        list.is_array() && std::all_of(list.begin(), list.end(), [](const Json& element) {
          return element.is_string() && !element.get<std::string>().empty();
        });
    if (!all_text) reject(setting, "a list of texts that are not empty, like [a, b]");
    member = list.get<std::vector<std::string>>();
  };
  return {name, read, [&member] { return Json(member).dump(); }};
}

Field flag(const char* name, bool& member) {
  const auto read = [&member](const Setting& setting) {
    if (!setting.value.is_boolean()) reject(setting, "true or false");
    member = setting.value.get<bool>();
  };
  return {name, read, [&member] { return std::string(member ? "true" : "false"); }};
}

Field integer(const char* name, std::int64_t& member, std::int64_t low, std::int64_t high) {
  return {name, [=, &member](const Setting& setting) { member = read_integer(setting, low, high); },
          [&member] { return std::to_string(member); }};
}

Field integer(const char* name, int& member, std::int64_t low, std::int64_t high) {
  const auto read = [=, &member](const Setting& setting) {
    member = static_cast<int>(read_integer(setting, low, high));
  };
  return {name, read, [&member] { return std::to_string(member); }};
}

Field integer(const char* name, std::optional<std::int64_t>& member, std::int64_t low) {
  const auto read = [=, &member](const Setting& setting) {
    member.reset();
    if (!setting.value.is_null()) member = read_integer(setting, low, kNoLimit, " or null");
  };
  return {name, read, [&member] { return member ? std::to_string(*member) : "null"; }};
}

Field integer_or_auto(const char* name, std::optional<std::int64_t>& member, std::int64_t low,
                      std::int64_t high) {
  const auto read = [=, &member](const Setting& setting) {
    member.reset();
    if (setting.value != "auto") member = read_integer(setting, low, high, " or auto");
  };
  return {name, read, [&member] { return member ? std::to_string(*member) : "auto"; }};
}

Field unsigned_integer(const char* name, std::uint64_t& member) {
  const auto read = [&member](const Setting& setting) {
    if (!setting.value.is_number_unsigned()) reject(setting, "an integer from 0 to 2^64 - 1");
    member = setting.value.get<std::uint64_t>();
  };
  return {name, read, [&member] { return std::to_string(member); }};
}

Field real(const char* name, double& member, Range range) {
  const auto read = [=, &member](const Setting& setting) {
    const bool right = setting.value.is_number() && inside(setting.value.get<double>(), range);
    if (!right) reject(setting, "a number " + describe(range));
    member = setting.value.get<double>();
  };
  return {name, read, [&member] { return fmt::format("{}", member); }};
}

Field real(const char* name, std::optional<double>& member, Range range) {
  const auto read = [=, &member](const Setting& setting) {
    member.reset();
    if (setting.value.is_null()) return;
    const bool right = setting.value.is_number() && inside(setting.value.get<double>(), range);
    if (!right) reject(setting, "a number " + describe(range) + " or null");
    member = setting.value.get<double>();
  };
  return {name, read, [&member] { return member ? fmt::format("{}", *member) : "null"; }};
}

Field real_pair(const char* name, std::array<double, 2>& member, Range range) {
  const auto read = [=, &member](const Setting& setting) {
    const Json& pair = setting.value;
    const bool right = pair.is_array() && pair.size() == 2 &&
                       std::all_of(pair.begin(), pair.end(), [&](const Json& element) {
                         return element.is_number() && inside(element.get<double>(), range);
                       });
    if (!right) reject(setting, "two numbers " + describe(range) + ", like [0.9, 0.95]");
    member = {pair[0].get<double>(), pair[1].get<double>()};
  };
  return {name, read, [&member] { return fmt::format("[{}, {}]", member[0], member[1]); }};
}

Field json_map(const char* name, std::string& member) {
  const auto read = [&member](const Setting& setting) {
    const bool right = setting.value.is_null() || setting.value.is_object();
    if (!right) reject(setting, "a map of config.json keys, like {model_type: llama, ...}");
    member = setting.value.is_null() ? "" : setting.value.dump();
  };
  return {name, read, [&member] { return member.empty() ? "null" : member; }};
}

std::size_t read_choice(const Setting& setting, std::span<const std::string> names,
                        std::span<const std::string> planned) {
  const std::string wanted = fmt::format("one of {}", fmt::join(names, ", "));
  if (!setting.value.is_string()) reject(setting, wanted);
  const std::string got = setting.value.get<std::string>();
  const auto found = std::find(names.begin(), names.end(), got);
  if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
  if (std::find(planned.begin(), planned.end(), got) != planned.end()) {
    reject(setting, wanted, fmt::format("'{}' is not in this version.", got));
  }
  const std::optional<std::string> near = nearest_name(got, names);
  reject(setting, wanted, near ? fmt::format("Did you mean {}?", *near) : "");
}

}  // namespace packtrain
