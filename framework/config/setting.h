// One setting as the user gave it, with its place, before anybody knows whether it is a key of
// ours. Values are held as JSON; yaml-cpp stays inside setting.cpp.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace packtrain {

// No configuration comes near these; a data file would.
inline constexpr std::size_t kMaxConfigBytes = 1U << 20U;
inline constexpr std::size_t kMaxConfigDepth = 32;

struct Setting {
  std::string section;
  std::string key;  // "": the section holds no keys, `value` is what it holds instead
  // Places: "file:line:column", or "command line: batch.order=x".
  std::string where;  // of the value
  std::string key_where;
  std::string section_where;
  std::string text;  // scalars: as written
  nlohmann::ordered_json value;

  std::string name() const { return key.empty() ? section : section + "." + key; }
};

// Every setting of a YAML text in its order; `file` is for messages. Plain scalars are typed as
// YAML 1.2's core schema does (so 1e-5 is a number and `yes` a string). Throws Error(kConfig) with
// file, line and column for bad syntax, a key given twice, anchors, aliases, tags, several
// documents, bytes that are no UTF-8, texts over kMaxConfigBytes and nesting over kMaxConfigDepth.
std::vector<Setting> read_settings(const std::string& text, const std::string& file);

// One "section.key=value" of the command line, the value in YAML syntax. Throws Error(kConfig).
Setting read_override(const std::string& text);

// Throws Error(kConfig): "WHERE: NAME: got VALUE, wanted `wanted`".
[[noreturn]] void reject(const Setting& setting, std::string_view wanted, std::string advice = "");

}  // namespace packtrain
