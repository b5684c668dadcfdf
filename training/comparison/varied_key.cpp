#include "training/comparison/varied_key.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "framework/config/resolve.h"
#include "framework/core/error.h"

namespace packtrain {
namespace {

// Those that name the runs, and those without which losses are not comparable.
constexpr std::array kFixed = {"run.output", "run.seed", "data.validation", "checkpoint.resume"};

[[noreturn]] void fail(const std::string& what, const std::string& advice) {
  throw Error(ErrorCategory::kConfig, "--vary: " + what, advice);
}

std::vector<std::string> split_values(std::string_view text) {
  std::vector<std::string> values(1);
  int depth = 0;
  char quote = 0;
  for (const char c : text) {
    if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '[' || c == '{') {
      ++depth;
    } else if (c == ']' || c == '}') {
      --depth;
    } else if (c == ',' && depth == 0) {
      values.emplace_back();
      continue;
    }
    values.back() += c;
  }
  return values;
}

std::string file_name_of(const std::string& text) {
  std::string name;
  for (const char c : text) {
    const bool is_plain = std::isalnum(static_cast<unsigned char>(c)) != 0 ||
                          std::string_view("._+-").find(c) != std::string_view::npos;
    name += is_plain ? c : '_';
  }
  return name;
}

}  // namespace

std::string VariedKey::folder_of(const std::string& value) const {
  const std::string last = key.substr(key.find('.') + 1);
  std::string name = is_strategy() ? value : file_name_of(last + "-" + value);
  const auto has_name = [&](const std::string& other) {
    return file_name_of(last + "-" + other) == name;
  };
  if (is_strategy() || std::ranges::count_if(values, has_name) == 1) return name;
  const auto place = std::ranges::find(values, value) - values.begin();
  return fmt::format("{}-{}", name, place + 1);
}

VariedKey parse_varied_key(std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos) {
    fail(fmt::format("got '{}', wanted KEY=value,value", text),
         "For example --vary optimizer.learning_rate=1e-5,2e-5.");
  }
  VariedKey varied{.key = std::string(text.substr(0, equals)),
                   .values = split_values(text.substr(equals + 1))};
  if (std::ranges::find(kFixed, varied.key) != kFixed.end()) {
    fail(
        fmt::format("{} cannot vary: a comparison gives its runs the same data to evaluate on, and "
                    "seeds and folders itself",
                    varied.key),
        "Vary another key; --seeds and --out choose seeds and folder.");
  }
  if (varied.values.size() < 2) {
    fail(fmt::format("got one value of {}, wanted two or more", varied.key),
         "Divide values by commas.");
  }
  std::vector<std::string> seen;
  for (const std::string& value : varied.values) {
    const std::string written = write_setting(read_override(varied.override_with(value)));
    if (std::ranges::find(seen, written) != seen.end()) {
      fail(fmt::format("{} is given the value {} twice", varied.key, value), "Leave one out.");
    }
    seen.push_back(written);
  }
  return varied;
}

}  // namespace packtrain
