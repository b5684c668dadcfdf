// The limits that a host needs for its ranks.
#pragma once

#include <cstdint>
#include <span>

namespace packtrain {

inline constexpr std::int64_t kMiB = std::int64_t{1} << 20U;

struct LimitNeeds {
  std::int64_t open_files = 0;      // of a process
  std::int64_t user_processes = 0;  // processes and threads of the user, on the host
  std::int64_t shared_memory_bytes = 0;
};

// The needs of a host with `ranks_of_host` of the `num_ranks` ranks.
LimitNeeds limits_needed(int num_ranks, int ranks_of_host, bool on_gpus);

// A limit in a rank's facts.
struct LimitKind {
  const char* key = "";
  std::int64_t LimitNeeds::* need = nullptr;
  std::int64_t unit = 1;    // in which it is shown
  const char* what = "";    // with {} for the number wanted
  const char* advice = "";  // how to raise it
};
std::span<const LimitKind> limit_kinds();

}  // namespace packtrain
