// Memory of the host: what this process could still get, and what it has.
#pragma once

#include <cstdint>
#include <string>

namespace packtrain {

// The texts it is told from; empty where the system has no such file.
struct HostMemoryTexts {
  std::string meminfo;        // /proc/meminfo
  std::string group_limit;    // a control group's memory.max (version 2), bytes or "max", or
                              // memory.limit_in_bytes (version 1)
  std::string group_current;  // memory.current, memory.usage_in_bytes
  std::string group_stat;     // memory.stat
};

// MemAvailable, or what the control group leaves where that is less: its limit less what is in use,
// inactive file cache not counted. 0: unknown.
std::int64_t available_memory_bytes(const HostMemoryTexts& texts);

// Where the kernel tells.
struct HostMemoryPlaces {
  std::string meminfo = "/proc/meminfo";
  std::string own_groups = "/proc/self/cgroup";
  std::string groups = "/sys/fs/cgroup";  // where control groups are mounted
};

// The least that any control group leaves, from the process's own one up to the root: batch systems
// set limits between. Groups that are not to be seen, as in containers, are left out; the root is
// always looked at.
std::int64_t available_memory_bytes(const HostMemoryPlaces& places);
std::int64_t host_available_memory_bytes();  // of this host, now

std::int64_t resident_memory_bytes();  // of this process, now; 0: unknown

}  // namespace packtrain
