#include "framework/training/folder_in_use.h"

#include <fmt/format.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

#include "framework/support/error.h"
#include "framework/support/file.h"
#include "framework/support/json.h"
#include "framework/support/logging.h"

namespace packtrain {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kLongDead{60};  // signs this old are nobody's
constexpr std::chrono::milliseconds kLookEvery{100};
constexpr int kLooks = 30;  // longer than a living rank is silent
constexpr std::chrono::seconds kOwnHostEndsWithin{10};
constexpr std::chrono::seconds kOtherHostEndsWithin{60};

struct Sign {
  fs::path path;
  std::string host;
  int pid = 0;
  fs::file_time_type written;
};

// Opening the file has file systems of several hosts look at the server's copy.
std::optional<Sign> read_sign(const fs::path& path) {
  try {
    const auto json = parse_json(read_text(path.string(), ErrorCategory::kInternal, kMaxJsonBytes));
    return Sign{path, json.at("host"), json.at("pid"), fs::last_write_time(path)};
  } catch (const std::exception&) {  // half written, or gone
    return std::nullopt;
  }
}

bool may_live(const Sign& sign, const std::string& own_host) {
  if (fs::file_time_type::clock::now() - sign.written > kLongDead) return false;
  return sign.host != own_host || ::kill(sign.pid, 0) == 0 || errno == EPERM;
}

std::vector<Sign> signs_that_may_live(const fs::path& folder, const std::string& own_host) {
  std::vector<Sign> signs;
  std::error_code none;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, none)) {
    const auto sign = read_sign(entry.path());
    if (sign && may_live(*sign, own_host)) signs.push_back(*sign);
  }
  return signs;
}

// Of a rank that writes: its signs become newer while we look.
std::optional<Sign> living_sign(const fs::path& folder, const std::string& own_host) {
  const std::vector<Sign> signs = signs_that_may_live(folder, own_host);
  for (int look = 0; look < kLooks && !signs.empty(); ++look) {
    std::this_thread::sleep_for(kLookEvery);
    for (const Sign& sign : signs) {
      const auto now = read_sign(sign.path);
      if (now && now->pid == sign.pid && now->written != sign.written) return now;
    }
  }
  return std::nullopt;
}

void wait_for_other_job(const std::string& run_folder, const std::string& own_host) {
  const Clock::time_point begin = Clock::now();
  bool told = false;
  while (const auto sign = living_sign(fs::path(run_folder) / "progress", own_host)) {
    const bool is_own = sign->host == own_host;
    const auto limit = is_own ? kOwnHostEndsWithin : kOtherHostEndsWithin;
    const std::string who = fmt::format("another job is at work in {} (process {} on host {})",
                                        run_folder, sign->pid, sign->host);
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
  if (world.rank() == 0) wait_for_other_job(run_folder, world.host());
  world.control().barrier();
}

}  // namespace packtrain
