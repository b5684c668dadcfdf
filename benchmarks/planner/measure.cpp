#include "benchmarks/planner/measure.h"

#include <chrono>
#include <cstdlib>
#include <ctime>
#include <string>

#include "framework/core/error.h"
#include "framework/core/file.h"

namespace packtrain {
namespace {

// A line "NAME:   N kB" of /proc/self/status.
std::int64_t status_bytes(const std::string& name) {
  const std::string status = read_text("/proc/self/status", ErrorCategory::kInternal);
  const std::size_t line = status.find(name + ":");
  if (line == std::string::npos) {
    throw Error(ErrorCategory::kInternal, "/proc/self/status has no line " + name);
  }
  return 1024 * std::strtoll(status.c_str() + line + name.size() + 1, nullptr, 10);
}

}  // namespace

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double cpu_seconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

std::int64_t resident_memory() {
  return status_bytes("VmRSS");
}

std::int64_t peak_memory() {
  return status_bytes("VmHWM");
}

std::int64_t own_memory() {
  return status_bytes("RssAnon");
}

void restart_peak_memory() {
  // proc(5): writing 5 resets the peak to the current resident memory.
  OutputFile file("/proc/self/clear_refs", OutputFile::Mode::kAppend, ErrorCategory::kInternal);
  file.write(std::string_view("5"));
  file.close();
}

}  // namespace packtrain
