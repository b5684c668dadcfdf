// Memory of the host: what this process could still get, and what it has.
#pragma once

#include <cstdint>
#include <string>

namespace packtrain {

// The texts it is told from; empty where the system has no such file.
struct HostMemoryTexts {
  std::string meminfo;        // /proc/meminfo
  std::string group_limit;    // memory.max of the control group (version 2), bytes or "max"
  std::string group_current;  // memory.current
  std::string group_stat;     // memory.stat
};

// MemAvailable, or what the control group leaves where that is less: its limit less what is in use,
// inactive file cache not counted. 0: unknown.
std::int64_t available_memory_bytes(const HostMemoryTexts& texts);
std::int64_t host_available_memory_bytes();  // of this host, now

std::int64_t resident_memory_bytes();  // of this process, now; 0: unknown

}  // namespace packtrain
