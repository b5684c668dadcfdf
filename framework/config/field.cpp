#include "framework/config/field.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "framework/core/error.h"

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

std::string integers(std::int64_t low, std::int64_t high, const char* or_what = "") {
  return high == kNoLimit ? fmt::format("an integer >= {}{}", low, or_what)
                          : fmt::format("an integer from {} to {}{}", low, high, or_what);
}

std::int64_t read_integer(const Setting& setting, const std::string& wanted, std::int64_t low,
                          std::int64_t high) {
  const std::optional<std::int64_t> value = as_int64(setting.value);
  if (!value || *value < low || *value > high) reject(setting, wanted);
  return *value;
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

// Writes plain text when YAML reads it back unchanged, else a JSON string, which is valid YAML.
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
  return setting.text;  // a folder name can be a number: 7
}

}  // namespace

Field text(const char* name, std::string& member) {
  return {.name = name,
          .wanted = "text",
          .read = [&member](const Setting& setting) { member = read_text_value(setting); },
          .write = [&member] { return write_text(member); }};
}

Field needed_text(const char* name, std::string& member) {
  Field field = text(name, member);
  field.wanted = "text that is not empty";
  field.read = [&member, wanted = field.wanted](const Setting& setting) {
    member = read_text_value(setting);
    if (member.empty()) reject(setting, wanted);
  };
  return field;
}

Field text_list(const char* name, std::vector<std::string>& member) {
  constexpr const char* kWanted = "a list of texts that are not empty, like [a, b]";
  const auto read = [&member](const Setting& setting) {
    const Json& list = setting.value;
    const bool all_text =
        list.is_array() && std::all_of(list.begin(), list.end(), [](const Json& element) {
          return element.is_string() && !element.get<std::string>().empty();
        });
    if (!all_text) reject(setting, kWanted);
    member = list.get<std::vector<std::string>>();
  };
  return {.name = name, .wanted = kWanted, .read = read, .write = [&member] {
            return Json(member).dump();
          }};
}

Field flag(const char* name, bool& member) {
  const auto read = [&member](const Setting& setting) {
    if (!setting.value.is_boolean()) reject(setting, "true or false");
    member = setting.value.get<bool>();
  };
  const auto write = [&member] { return std::string(member ? "true" : "false"); };
  return {.name = name,
          .wanted = "true or false",
          .read = read,
          .write = write,
          .choices = {"true", "false"}};
}

Field integer(const char* name, std::int64_t& member, std::int64_t low, std::int64_t high) {
  const std::string wanted = integers(low, high);
  const auto read = [=, &member](const Setting& setting) {
    member = read_integer(setting, wanted, low, high);
  };
  const auto write = [&member] { return std::to_string(member); };
  return {.name = name, .wanted = wanted, .read = read, .write = write};
}

Field integer(const char* name, int& member, std::int64_t low, std::int64_t high) {
  const std::string wanted = integers(low, high);
  const auto read = [=, &member](const Setting& setting) {
    member = static_cast<int>(read_integer(setting, wanted, low, high));
  };
  const auto write = [&member] { return std::to_string(member); };
  return {.name = name, .wanted = wanted, .read = read, .write = write};
}

Field integer(const char* name, std::optional<std::int64_t>& member, std::int64_t low) {
  const std::string wanted = integers(low, kNoLimit, " or null");
  const auto read = [=, &member](const Setting& setting) {
    member.reset();
    if (!setting.value.is_null()) member = read_integer(setting, wanted, low, kNoLimit);
  };
  const auto write = [&member] { return member ? std::to_string(*member) : "null"; };
  return {.name = name, .wanted = wanted, .read = read, .write = write};
}

Field integer_or_auto(const char* name, std::optional<std::int64_t>& member, std::int64_t low,
                      std::int64_t high) {
  const std::string wanted = integers(low, high, " or auto");
  const auto read = [=, &member](const Setting& setting) {
    member.reset();
    if (setting.value != "auto") member = read_integer(setting, wanted, low, high);
  };
  const auto write = [&member] { return member ? std::to_string(*member) : "auto"; };
  return {.name = name, .wanted = wanted, .read = read, .write = write};
}

Field interval(const char* name, Interval& member) {
  constexpr const char* kWanted =
      "an integer >= 0, `epoch`, or a share of the run above 0 and below 1";
  const auto read = [&member](const Setting& setting) {
    const Json& value = setting.value;
    const double share = value.is_number_float() ? value.get<double>() : 0;
    member = Interval();
    if (value == "epoch") {
      member.epoch = true;
    } else if (share > 0 && share < 1) {
      member.share = share;
    } else {
      member.steps = read_integer(setting, kWanted, 0, kNoLimit);
    }
  };
  const auto write = [&member] {
    if (member.epoch) return std::string("epoch");
    return member.share > 0 ? fmt::format("{}", member.share) : std::to_string(member.steps);
  };
  return {.name = name, .wanted = kWanted, .read = read, .write = write};
}

Field unsigned_integer(const char* name, std::uint64_t& member) {
  constexpr const char* kWanted = "an integer from 0 to 2^64 - 1";
  const auto read = [&member](const Setting& setting) {
    if (!setting.value.is_number_unsigned()) reject(setting, kWanted);
    member = setting.value.get<std::uint64_t>();
  };
  const auto write = [&member] { return std::to_string(member); };
  return {.name = name, .wanted = kWanted, .read = read, .write = write};
}

Field real(const char* name, double& member, Range range) {
  const std::string wanted = "a number " + describe(range);
  const auto read = [=, &member](const Setting& setting) {
    const bool right = setting.value.is_number() && inside(setting.value.get<double>(), range);
    if (!right) reject(setting, wanted);
    member = setting.value.get<double>();
  };
  const auto write = [&member] { return fmt::format("{}", member); };
  return {.name = name, .wanted = wanted, .read = read, .write = write};
}

Field real(const char* name, std::optional<double>& member, Range range) {
  const std::string wanted = "a number " + describe(range) + " or null";
  const auto read = [=, &member](const Setting& setting) {
    member.reset();
    if (setting.value.is_null()) return;
    const bool right = setting.value.is_number() && inside(setting.value.get<double>(), range);
    if (!right) reject(setting, wanted);
    member = setting.value.get<double>();
  };
  const auto write = [&member] { return member ? fmt::format("{}", *member) : "null"; };
  return {.name = name, .wanted = wanted, .read = read, .write = write};
}

Field real_pair(const char* name, std::array<double, 2>& member, Range range) {
  const std::string wanted = "two numbers " + describe(range) + ", like [0.9, 0.95]";
  const auto read = [=, &member](const Setting& setting) {
    const Json& pair = setting.value;
    const bool right = pair.is_array() && pair.size() == 2 &&
                       std::all_of(pair.begin(), pair.end(), [&](const Json& element) {
                         return element.is_number() && inside(element.get<double>(), range);
                       });
    if (!right) reject(setting, wanted);
    member = {pair[0].get<double>(), pair[1].get<double>()};
  };
  const auto write = [&member] { return fmt::format("[{}, {}]", member[0], member[1]); };
  return {.name = name, .wanted = wanted, .read = read, .write = write};
}

Field integer_list(const char* name, std::vector<std::int64_t>& member, std::int64_t low) {
  const std::string wanted =
      fmt::format("a list of integers >= {}, like [{}, {}]", low, low, low + 1);
  const auto read = [=, &member](const Setting& setting) {
    if (!setting.value.is_array()) reject(setting, wanted);
    std::vector<std::int64_t> values;
    for (const Json& element : setting.value) {
      const std::optional<std::int64_t> value = as_int64(element);
      if (!value || *value < low) reject(setting, wanted);
      values.push_back(*value);
    }
    member = std::move(values);
  };
  return {.name = name, .wanted = wanted, .read = read, .write = [&member] {
            return Json(member).dump();
          }};
}

Field number_map(const char* name, std::vector<NumberOfName>& member, Range range) {
  const std::string wanted = "a map of names to numbers " + describe(range) + ", like {q_proj: 32}";
  const auto read = [=, &member](const Setting& setting) {
    if (!setting.value.is_null() && !setting.value.is_object()) reject(setting, wanted);
    std::vector<NumberOfName> values;
    for (const auto& [key, value] : setting.value.items()) {
      if (!value.is_number() || !inside(value.get<double>(), range)) reject(setting, wanted);
      values.push_back({key, value.get<double>()});
    }
    member = std::move(values);
  };
  const auto write = [&member] {
    Json map = Json::object();
    for (const auto& [key, number] : member) map[key] = number;
    return map.dump();
  };
  return {.name = name, .wanted = wanted, .read = read, .write = write};
}

Field json_map(const char* name, std::string& member) {
  constexpr const char* kWanted = "a map of config.json keys, like {model_type: llama, ...}";
  const auto read = [&member](const Setting& setting) {
    const bool right = setting.value.is_null() || setting.value.is_object();
    if (!right) reject(setting, kWanted);
    member = setting.value.is_null() ? "" : setting.value.dump();
  };
  const auto write = [&member] { return member.empty() ? "null" : member; };
  return {.name = name, .wanted = kWanted, .read = read, .write = write};
}

}  // namespace packtrain
