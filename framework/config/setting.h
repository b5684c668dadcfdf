// One setting as the user wrote it, with its place, before it is matched with a key. Values are
// JSON. Only setting.cpp includes yaml-cpp.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace packtrain {

// Limits that reject a data file given as a configuration by mistake.
inline constexpr std::size_t kMaxConfigBytes = 1U << 20U;
inline constexpr std::size_t kMaxConfigDepth = 32;

struct Setting {
  std::string section;
  std::string key;  // "": `value` replaces the whole section
  // Places: "file:line:column", or "command line: batch.order=x".
  std::string where;  // of the value
  std::string key_where;
  std::string section_where;
  std::string text;  // scalars: as written
  nlohmann::ordered_json value;

  std::string name() const { return key.empty() ? section : section + "." + key; }
};

// All settings of a YAML text in order; `file` is for messages. Plain scalars have the types of
// YAML 1.2's core schema: 1e-5 is a number and `yes` a string.
// Throws Error(kConfig) with file, line and column for invalid syntax or UTF-8 and for duplicate
// keys. Anchors, aliases, tags, several documents, and texts over kMaxConfigBytes or
// kMaxConfigDepth are errors as well.
std::vector<Setting> read_settings(const std::string& text, const std::string& file);

// One "section.key=value" of the command line, the value in YAML syntax. Throws Error(kConfig).
Setting read_override(const std::string& text);
// The same for "key=value", a key that has no section.
Setting read_whole_override(const std::string& text);

// Throws Error(kConfig): "WHERE: WHAT".
[[noreturn]] void reject_at(const std::string& where, const std::string& what,
                            std::string advice = "");

// Throws Error(kConfig): "WHERE: NAME: got VALUE, wanted `wanted`".
[[noreturn]] void reject(const Setting& setting, std::string_view wanted, std::string advice = "");

}  // namespace packtrain
