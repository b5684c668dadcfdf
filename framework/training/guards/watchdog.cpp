#include "framework/training/guards/watchdog.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <system_error>
#include <vector>

#include "framework/support/error.h"
#include "framework/support/file.h"
#include "framework/training/guards/end_at_once.h"
#include "framework/training/guards/sign_of_life.h"
#include "parallel/collective_log.h"

namespace packtrain {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kSignEvery{1};
constexpr double kOverdueShare = 0.5;  // of a limit
constexpr double kSilentAfterS = 4;    // a rank that does not run

const char* phase_name(RunPhase phase) {
  constexpr std::array kNames = {"start", "step", "checkpoint or evaluation"};
  return kNames.at(static_cast<std::size_t>(phase));
}

const char* limit_key(RunPhase phase) {
  constexpr std::array kKeys = {"guard.start_timeout_s", "guard.step_timeout_s",
                                "guard.checkpoint_timeout_s"};
  return kKeys.at(static_cast<std::size_t>(phase));
}

struct Sign {
  int rank = 0;
  SignOfLife life;
  double age_s = 0;  // by the clock of the file system, which all signs share
};

// Where every rank waits for every other, what lies between them is suspect.
std::string hosts_of(const std::vector<Sign>& signs) {
  std::map<std::string, std::vector<int>> ranks;
  for (const Sign& sign : signs) ranks[sign.life.host].push_back(sign.rank);
  if (ranks.size() < 2) return "";
  std::string text = ": is the network between their hosts cut?";
  for (const auto& [host, own] : ranks) {
    text += fmt::format(" ({}: rank {})", host, fmt::join(own, ", "));
  }
  return text;
}

}  // namespace

Watchdog::Watchdog(const GuardSection& limits, const std::string& run_folder, World& world)
    : limits_s_{limits.start_timeout_s, limits.step_timeout_s, limits.checkpoint_timeout_s},
      folder_(signs_folder(run_folder).string()),
      host_(host_in_signs(world.host())),
      rank_(world.rank()),
      num_ranks_(world.size()) {
  make_folders(folder_, ErrorCategory::kInternal);
  std::error_code ignored;
  fs::remove(sign_path(folder_, rank_), ignored);  // of a process that was killed
  sign_ = std::make_unique<OutputFile>(sign_path(folder_, rank_).string(),
                                       OutputFile::Mode::kCreate, ErrorCategory::kInternal);
  leave_sign(position_);
  thread_ = std::thread([this] { watch(); });
}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  wake_.notify_one();
  thread_.join();
  std::error_code ignored;
  fs::remove(sign_path(folder_, rank_), ignored);
}

void Watchdog::enter(RunPhase phase, std::int64_t step) {
  const std::lock_guard lock(mutex_);
  position_ = {phase, step, Clock::now()};
}

std::string Watchdog::overdue() const {
  Position at;
  {
    const std::lock_guard lock(mutex_);
    at = position_;
  }
  const double limit_s = limits_s_.at(static_cast<std::size_t>(at.phase));
  const std::chrono::duration<double> age = Clock::now() - at.begin;
  if (limit_s <= 0 || age.count() < kOverdueShare * limit_s) return "";
  return fmt::format("rank {}: no progress for {:.1f} s at step {} ({}; {} is {:g})", rank_,
                     age.count(), at.step, phase_name(at.phase), limit_key(at.phase), limit_s);
}

void Watchdog::watch() {
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, kSignEvery, [this] { return over_; })) {
    const Position at = position_;
    lock.unlock();
    leave_sign(at);
    const double limit_s = limits_s_.at(static_cast<std::size_t>(at.phase));
    const std::chrono::duration<double> age = Clock::now() - at.begin;
    if (limit_s > 0 && age.count() > limit_s) end(at);
    lock.lock();
  }
}

// Not synced, and a failure is no reason to end a run: without signs only names are missing.
void Watchdog::leave_sign(const Position& at) const {
  SignOfLife sign;
  sign.host = host_;
  sign.pid = ::getpid();
  sign.step = at.step;
  sign.num_collectives = num_collectives_begun();
  const std::string text = sign_text(sign, phase_name(at.phase));
  try {
    sign_->write_at(0, std::as_bytes(std::span(text)));
  } catch (const Error&) {
  }
}

std::string Watchdog::missing_ranks() const {
  std::error_code error;
  const fs::file_time_type now = fs::last_write_time(sign_path(folder_, rank_), error);
  std::vector<Sign> signs;
  std::vector<std::string> missing;
  for (int rank = 0; rank < num_ranks_; ++rank) {
    if (const auto life = read_sign(sign_path(folder_, rank))) {
      const std::chrono::duration<double> age = now - life->written;
      signs.push_back({rank, *life, age.count()});
    } else {
      missing.push_back(fmt::format("rank {} has left no sign of life", rank));
    }
  }
  const auto num_collectives = [](const Sign& sign) { return sign.life.num_collectives; };
  const auto most = std::ranges::max_element(signs, {}, num_collectives);
  for (const Sign& sign : signs) {
    if (sign.age_s > kSilentAfterS) {
      missing.push_back(fmt::format("rank {} has not run for {:.0f} s (step {})", sign.rank,
                                    sign.age_s, sign.life.step));
    } else if (sign.life.num_collectives < most->life.num_collectives) {
      missing.push_back(fmt::format(
          "rank {} runs, but has begun {} collectives where others have "
          "begun {} (step {})",
          sign.rank, sign.life.num_collectives, most->life.num_collectives, sign.life.step));
    }
  }
  if (missing.empty()) return "no rank is behind the others" + hosts_of(signs);
  return fmt::format("missing: {}", fmt::join(missing, "; "));
}

void Watchdog::end(const Position& at) const {
  const std::chrono::duration<double> age = Clock::now() - at.begin;
  end_at_once(fmt::format("error: rank {}: no progress for {:.1f} s at step {} ({}; {} is {:g})\n"
                          "  {}\n  latest collectives: {}\n",
                          rank_, age.count(), at.step, phase_name(at.phase), limit_key(at.phase),
                          limits_s_.at(static_cast<std::size_t>(at.phase)), missing_ranks(),
                          fmt::join(latest_collectives(), "; ")),
              ErrorCategory::kHang);
}

}  // namespace packtrain
