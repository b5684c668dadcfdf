#include "framework/device/host_memory.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>

#include "framework/support/error.h"
#include "framework/support/file.h"

namespace packtrain {
namespace {

constexpr const char* kGroup = "/sys/fs/cgroup/";

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
    return "";  // not ours to read: as good as not there
  }
}

}  // namespace

std::int64_t available_memory_bytes(const HostMemoryTexts& texts) {
  const std::int64_t host = line_value(texts.meminfo, "MemAvailable:").value_or(0) * 1024;  // KiB
  const auto limit = leading_number(texts.group_limit);
  const auto current = leading_number(texts.group_current);
  if (!limit || !current) return host;
  const std::int64_t cache = line_value(texts.group_stat, "inactive_file ").value_or(0);
  const std::int64_t group =
      std::max<std::int64_t>(0, *limit - std::max<std::int64_t>(0, *current - cache));
  return host == 0 ? group : std::min(host, group);
}

std::int64_t resident_memory_bytes() {
  return line_value(text_or_nothing("/proc/self/status"), "VmRSS:").value_or(0) * 1024;  // KiB
}

std::int64_t host_available_memory_bytes() {
  const std::string group = kGroup;
  return available_memory_bytes(
      {text_or_nothing("/proc/meminfo"), text_or_nothing(group + "memory.max"),
       text_or_nothing(group + "memory.current"), text_or_nothing(group + "memory.stat")});
}

}  // namespace packtrain
