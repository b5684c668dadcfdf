#include "training/guards/watchdog.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "framework/core/error.h"
#include "framework/core/file.h"
#include "parallel/communicators/collective_log.h"
#include "training/guards/fast_exit.h"
#include "training/guards/heartbeat.h"

namespace packtrain {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kHeartbeatEvery{1};
constexpr std::chrono::seconds kLookEvery{1};
constexpr std::chrono::milliseconds kNamesWithin{2000};      // after the limit
constexpr std::chrono::milliseconds kNamesWithinPerRank{1};  // more, for the files of many ranks
constexpr double kOverdueShare = 0.5;                        // of a limit
constexpr double kSilentAfterS = 4;  // older heartbeats belong to a rank that does not run

const char* phase_name(RunPhase phase) {
  constexpr std::array kNames = {"start", "step", "checkpoint or evaluation"};
  return kNames.at(static_cast<std::size_t>(phase));
}

const char* limit_key(RunPhase phase) {
  constexpr std::array kKeys = {"guard.start_timeout_s", "guard.step_timeout_s",
                                "guard.checkpoint_timeout_s"};
  return kKeys.at(static_cast<std::size_t>(phase));
}

struct RankHeartbeat {
  int rank = 0;
  Heartbeat life;
  double age_s = 0;  // by the clock of the file system, which all heartbeats share
};

// When every rank waits for another, the network between their hosts is suspect.
std::string hosts_of(const std::vector<RankHeartbeat>& heartbeats) {
  std::map<std::string, std::vector<int>> ranks;
  for (const RankHeartbeat& heartbeat : heartbeats)
    ranks[heartbeat.life.host].push_back(heartbeat.rank);
  if (ranks.size() < 2) return "";
  std::string text = ": is the network between their hosts cut?";
  for (const auto& [host, own] : ranks) {
    text += fmt::format(" ({}: rank {})", host, fmt::join(own, ", "));
  }
  return text;
}

std::string missing_of(const std::vector<RankHeartbeat>& heartbeats,
                       std::vector<std::string> missing) {
  const auto num_collectives = [](const RankHeartbeat& heartbeat) {
    return heartbeat.life.num_collectives;
  };
  const auto most = std::ranges::max_element(heartbeats, {}, num_collectives);
  for (const RankHeartbeat& heartbeat : heartbeats) {
    if (heartbeat.age_s > kSilentAfterS) {
      missing.push_back(fmt::format("rank {} has not run for {:.0f} s (step {})", heartbeat.rank,
                                    heartbeat.age_s, heartbeat.life.step));
    } else if (heartbeat.life.num_collectives < most->life.num_collectives) {
      missing.push_back(
          fmt::format("rank {} runs, but has begun {} collectives where others have "
                      "begun {} (step {})",
                      heartbeat.rank, heartbeat.life.num_collectives, most->life.num_collectives,
                      heartbeat.life.step));
    }
  }
  if (missing.empty()) return "no rank is behind the others" + hosts_of(heartbeats);
  return fmt::format("missing: {}", fmt::join(missing, "; "));
}

}  // namespace

struct Watchdog::Heartbeats {
  std::string folder;
  std::string host;
  int rank = 0;
  int num_ranks = 1;
  std::unique_ptr<OutputFile> file;  // used by the thread only
  std::mutex mutex;
  RunPhase phase = RunPhase::kStart;
  std::int64_t step = 0;
  bool wants_names = false;
  std::string missing;  // from the latest look at all heartbeats

  // A failure does not end a run. Without heartbeats the report lacks names.
  void work() {
    std::unique_lock lock(mutex);
    const bool reads = wants_names;
    Heartbeat heartbeat;
    heartbeat.host = host;
    heartbeat.pid = ::getpid();
    heartbeat.step = step;
    heartbeat.num_collectives = num_collectives_begun();
    const std::string text = heartbeat_text(heartbeat, phase_name(phase));
    lock.unlock();
    try {
      if (!file) open();
      file->write_at(0, std::as_bytes(std::span(text)));  // without fsync
      if (!reads) return;
      std::string found = read();
      lock.lock();
      missing = std::move(found);
    } catch (const std::exception&) {
    }
  }

  void open() {
    make_folders(folder, ErrorCategory::kInternal);
    remove();  // a file left by a killed process
    file = std::make_unique<OutputFile>(heartbeat_path(folder, rank).string(),
                                        OutputFile::Mode::kCreate, ErrorCategory::kInternal);
  }

  void remove() const {
    std::error_code ignored;
    fs::remove(heartbeat_path(folder, rank), ignored);
  }

  std::string read() const {
    std::error_code error;
    const fs::file_time_type now = fs::last_write_time(heartbeat_path(folder, rank), error);
    std::vector<RankHeartbeat> heartbeats;
    std::vector<std::string> missing_heartbeats;
    for (int other = 0; other < num_ranks; ++other) {
      if (const auto life = read_heartbeat(heartbeat_path(folder, other))) {
        const std::chrono::duration<double> age = now - life->written;
        heartbeats.push_back({other, *life, age.count()});
      } else {
        missing_heartbeats.push_back(fmt::format("rank {} has written no heartbeat", other));
      }
    }
    return missing_of(heartbeats, std::move(missing_heartbeats));
  }
};

Watchdog::Watchdog(const GuardSection& limits, const std::string& run_folder, World& world)
    : limits_s_{limits.start_timeout_s, limits.step_timeout_s, limits.checkpoint_timeout_s},
      rank_(world.rank()),
      heartbeats_(std::make_shared<Heartbeats>()) {
  if (!run_folder.empty()) {
    heartbeats_->folder = heartbeat_folder(run_folder).string();
    heartbeats_->host = host_in_heartbeats(world.host());
    heartbeats_->rank = rank_;
    heartbeats_->num_ranks = world.size();
    heartbeat_thread_ = std::make_unique<FileThread>(
        [heartbeats = heartbeats_] { heartbeats->work(); },
        [heartbeats = heartbeats_] { heartbeats->remove(); }, kHeartbeatEvery);
  }
  thread_ = std::thread([this] { watch(); });
}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void Watchdog::enter(RunPhase phase, std::int64_t step) {
  {
    const std::lock_guard lock(mutex_);
    position_ = {phase, step, Clock::now()};
  }
  const std::lock_guard lock(heartbeats_->mutex);
  heartbeats_->phase = phase;
  heartbeats_->step = step;
  heartbeats_->wants_names = false;
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

// Checks the limit without waiting for a file.
void Watchdog::watch() {
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, kLookEvery, [this] { return over_; })) {
    const Position at = position_;
    lock.unlock();
    const double limit_s = limits_s_.at(static_cast<std::size_t>(at.phase));
    const std::chrono::duration<double> age = Clock::now() - at.begin;
    if (limit_s > 0 && age.count() > limit_s) end(at);
    lock.lock();
  }
}

// Names from the current heartbeats if the files can be read, else "not known". The end of one rank
// ends the others, so a rank that does not read them gives the readers their time.
std::string Watchdog::missing_ranks() {
  if (heartbeat_thread_ == nullptr) return "missing: not known";
  const int num_ranks = heartbeats_->num_ranks;
  const std::chrono::milliseconds within = kNamesWithin + num_ranks * kNamesWithinPerRank;
  if (!reads_all_heartbeats(rank_, num_ranks)) {
    std::this_thread::sleep_for(within);
    return fmt::format("missing: not read by this rank; rank 0 and each {}th one after it say it",
                       heartbeat_reader_distance(num_ranks));
  }
  {
    const std::lock_guard lock(heartbeats_->mutex);
    heartbeats_->wants_names = true;
    heartbeats_->missing.clear();
  }
  const bool answered = heartbeat_thread_->ask(within);
  const std::lock_guard lock(heartbeats_->mutex);
  if (!answered || heartbeats_->missing.empty()) {
    return "missing: not known, " + heartbeats_->folder + " does not answer";
  }
  return heartbeats_->missing;
}

void Watchdog::end(const Position& at) {
  const std::chrono::duration<double> age = Clock::now() - at.begin;
  fast_exit(fmt::format("error: rank {}: no progress for {:.1f} s at step {} ({}; {} is {:g})\n"
                        "  {}\n  latest collectives: {}\n",
                        rank_, age.count(), at.step, phase_name(at.phase), limit_key(at.phase),
                        limits_s_.at(static_cast<std::size_t>(at.phase)), missing_ranks(),
                        fmt::join(latest_collectives(), "; ")),
            ErrorCategory::kHang);
}

}  // namespace packtrain
