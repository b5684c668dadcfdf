// Memory of the host: available to this process, and used by it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "framework/core/error.h"

namespace packtrain {

// Texts of the kernel's files. Empty when the system has no such file.
struct HostMemoryTexts {
  std::string meminfo;        // /proc/meminfo
  std::string group_limit;    // a control group's memory.max (version 2), bytes or "max", or
                              // memory.limit_in_bytes (version 1)
  std::string group_current;  // memory.current, memory.usage_in_bytes
  std::string group_stat;     // memory.stat
};

// MemAvailable, or the free memory of the control group when that is less. The free memory is its
// limit minus its use, without inactive file cache. 0: unknown.
std::int64_t available_memory_bytes(const HostMemoryTexts& texts);

// Where the kernel's files are.
struct HostMemoryPlaces {
  std::string meminfo = "/proc/meminfo";
  std::string own_groups = "/proc/self/cgroup";
  std::string groups = "/sys/fs/cgroup";  // where control groups are mounted
};

// The smallest free memory of all control groups from the process's own to the root, because batch
// systems set limits in between. Groups that are not visible, as in containers, are skipped. The
// root is always read.
std::int64_t available_memory_bytes(const HostMemoryPlaces& places);
std::int64_t host_available_memory_bytes();  // of this host at present

// An Error(kDevice) that says which memory could not be had, the bytes, and what this host has
// left.
Error host_memory_error(const std::string& kind, std::size_t bytes);

std::int64_t resident_memory_bytes();  // of this process at present; 0: unknown

}  // namespace packtrain
