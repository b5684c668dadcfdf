#include "training/guards/folder_in_use.h"

#include <fmt/format.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

#include "framework/core/error.h"
#include "framework/core/logging.h"
#include "training/guards/heartbeat.h"
#include "training/guards/run_folder_lock.h"

namespace packtrain {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kLongDead{60};  // the writer of an older heartbeat has ended
constexpr std::chrono::milliseconds kLookAtFolderEvery{100};
constexpr std::chrono::seconds kLookFor{3};  // longer than the interval between two heartbeats
constexpr std::chrono::seconds kOwnHostEndsWithin{10};
constexpr std::chrono::seconds kOtherHostEndsWithin{60};

// The time by the clock of the file system, which the times of heartbeats are by, too.
fs::file_time_type time_there(const fs::path& folder) {
  std::error_code error;
  const fs::file_time_type time = fs::last_write_time(folder / kOwnerFile, error);
  return error ? fs::file_time_type::clock::now() : time;
}

bool may_be_running(const Heartbeat& heartbeat, const std::string& own_host,
                    fs::file_time_type now) {
  if (now - heartbeat.written > kLongDead) return false;
  return heartbeat.host != own_host || ::kill(heartbeat.pid, 0) == 0 || errno == EPERM;
}

std::vector<Heartbeat> possibly_live_heartbeats(const fs::path& folder,
                                                const std::string& own_host) {
  const fs::file_time_type now = time_there(folder);
  std::vector<Heartbeat> heartbeats;
  std::error_code none;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, none)) {
    const auto heartbeat = read_heartbeat(entry.path());
    if (heartbeat && may_be_running(*heartbeat, own_host, now)) heartbeats.push_back(*heartbeat);
  }
  return heartbeats;
}

// A heartbeat whose rank is alive: its file is rewritten during the looks.
std::optional<Heartbeat> live_heartbeat(const fs::path& folder, const std::string& own_host) {
  const std::vector<Heartbeat> heartbeats = possibly_live_heartbeats(folder, own_host);
  const Clock::time_point begin = Clock::now();
  while (!heartbeats.empty() && Clock::now() - begin < kLookFor) {
    std::this_thread::sleep_for(kLookAtFolderEvery);
    for (const Heartbeat& heartbeat : heartbeats) {
      const auto now = read_heartbeat(heartbeat.path);
      if (now && now->pid == heartbeat.pid && now->written != heartbeat.written) return now;
    }
  }
  return std::nullopt;
}

void wait_for_other_job(const std::string& run_folder, const std::string& own_host) {
  const Clock::time_point begin = Clock::now();
  bool told = false;
  while (const auto heartbeat = live_heartbeat(heartbeat_folder(run_folder), own_host)) {
    const bool is_own = heartbeat->host == own_host;
    const auto limit = is_own ? kOwnHostEndsWithin : kOtherHostEndsWithin;
    const std::string who = fmt::format("another job is at work in {} (process {} on host {})",
                                        run_folder, heartbeat->pid, heartbeat->host);
    if (Clock::now() - begin > limit) {
      throw Error(ErrorCategory::kConfig, who,
                  "Stop it or wait for its end, or give this run its own run.output.");
    }
    if (!told) log_warning("{}: waiting for its end, {} s at most", who, limit.count());
    told = true;
  }
}

}  // namespace

void wait_for_folder(const std::string& run_folder, World& world) {
  if (world.rank() == 0) wait_for_other_job(run_folder, host_in_heartbeats(world.host()));
  world.control().barrier();
}

}  // namespace packtrain
