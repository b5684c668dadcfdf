#include "framework/device/host_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>
#include <sstream>
#include <string_view>
#include <system_error>
#include <vector>

#include "framework/core/file.h"
#include "framework/core/units.h"

namespace packtrain {
namespace {

std::optional<std::int64_t> leading_number(std::string_view text) {
  text.remove_prefix(std::min(text.size(), text.find_first_not_of(" \t")));
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{}) return std::nullopt;
  return value;
}

// The number after `name` at the beginning of a line.
std::optional<std::int64_t> line_value(std::string_view text, std::string_view name) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    if (line.starts_with(name)) return leading_number(line.substr(name.size()));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
  }
  return std::nullopt;
}

std::string text_or_nothing(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return "";
  try {
    return read_text(path, ErrorCategory::kDevice);
  } catch (const Error&) {
    return "";  // not readable: treated as missing
  }
}

// A hierarchy of control groups and the process's path in it. "" is the root.
struct Hierarchy {
  std::string mount;
  std::string path;
  bool version_1 = false;
};

bool lists(std::string_view names, std::string_view name) {
  for (;;) {
    const auto comma = names.find(',');
    if (names.substr(0, comma) == name) return true;
    if (comma == std::string_view::npos) return false;
    names.remove_prefix(comma + 1);
  }
}

// The hierarchies that limit memory. A line of /proc/self/cgroup has number, controllers and path.
// Version 2 has no controllers.
std::vector<Hierarchy> hierarchies(const HostMemoryPlaces& places) {
  Hierarchy second{places.groups, ""};
  Hierarchy first{places.groups + "/memory", "", true};
  std::istringstream lines(text_or_nothing(places.own_groups));
  for (std::string line; std::getline(lines, line);) {
    const auto controllers = line.find(':');
    const auto path = line.find(':', controllers + 1);
    if (controllers == std::string::npos || path == std::string::npos) continue;
    const std::string names = line.substr(controllers + 1, path - controllers - 1);
    std::string found = line.substr(path + 1);
    const bool is_inside = found.starts_with('/') && found.find("..") == std::string::npos;
    if (!is_inside || found == "/") found.clear();
    if (names.empty()) second.path = found;
    if (lists(names, "memory")) first.path = found;
  }
  return {second, first};
}

HostMemoryTexts texts_of(const std::string& folder, bool version_1) {
  const std::string memory = folder + "/memory.";
  return {"", text_or_nothing(memory + (version_1 ? "limit_in_bytes" : "max")),
          text_or_nothing(memory + (version_1 ? "usage_in_bytes" : "current")),
          text_or_nothing(memory + "stat")};
}

}  // namespace

std::int64_t available_memory_bytes(const HostMemoryTexts& texts) {
  const std::int64_t host = line_value(texts.meminfo, "MemAvailable:").value_or(0) * 1024;  // KiB
  const auto limit = leading_number(texts.group_limit);
  const auto current = leading_number(texts.group_current);
  if (!limit || !current) return host;
  // In version 1 the counts of child groups are separate: total_inactive_file includes them.
  const std::int64_t cache =
      line_value(texts.group_stat, "total_inactive_file ")
          .value_or(line_value(texts.group_stat, "inactive_file ").value_or(0));
  const std::int64_t group =
      std::max<std::int64_t>(0, *limit - std::max<std::int64_t>(0, *current - cache));
  return host == 0 ? group : std::min(host, group);
}

std::int64_t resident_memory_bytes() {
  return line_value(text_or_nothing("/proc/self/status"), "VmRSS:").value_or(0) * 1024;  // KiB
}

std::int64_t host_available_memory_bytes() {
  return available_memory_bytes(HostMemoryPlaces{});
}

Error host_memory_error(const std::string& kind, std::size_t bytes) {
  const auto available = static_cast<std::uint64_t>(host_available_memory_bytes());
  return {ErrorCategory::kDevice,
          fmt::format("{}: the system gives no {} bytes ({}); {} are available on this host", kind,
                      bytes, format_bytes(bytes), format_bytes(available)),
          "Free memory of the host, raise the limits of its container and of locked memory "
          "(`ulimit -l`), or use memory.offload: none and checkpoint.asynchronous: false."};
}

std::int64_t available_memory_bytes(const HostMemoryPlaces& places) {
  const std::string meminfo = text_or_nothing(places.meminfo);
  std::int64_t least = available_memory_bytes(HostMemoryTexts{meminfo, "", "", ""});
  for (const Hierarchy& hierarchy : hierarchies(places)) {
    for (std::string path = hierarchy.path;; path.resize(path.rfind('/'))) {
      HostMemoryTexts texts = texts_of(hierarchy.mount + path, hierarchy.version_1);
      texts.meminfo = meminfo;
      const std::int64_t left = available_memory_bytes(texts);
      const bool limits = leading_number(texts.group_limit) && leading_number(texts.group_current);
      if (limits && (least == 0 || left < least)) least = left;
      if (path.empty()) break;
    }
  }
  return least;
}

}  // namespace packtrain
