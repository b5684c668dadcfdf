#include "training/guards/run_folder_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <sstream>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "framework/core/descriptor.h"
#include "framework/core/error.h"
#include "framework/core/file.h"
#include "framework/core/json.h"
#include "framework/core/logging.h"
#include "training/guards/heartbeat.h"

namespace packtrain {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kRenewLockEvery{1};
constexpr std::chrono::milliseconds kLookAtLockEvery{100};
constexpr std::chrono::seconds kTakeoverEndsWithin{5};

std::string random_id() {
  std::random_device source;
  return fmt::format("{:08x}{:08x}", source(), source());
}

// "" when the file cannot be read.
std::string first_line(const std::string& path) {
  try {
    const std::string text = read_text(path, ErrorCategory::kInternal);
    return text.substr(0, text.find('\n'));
  } catch (const Error&) {
    return "";
  }
}

// "" when it is not visible, "ended" for a zombie process.
std::string start_time(int pid) {
  const std::string line = first_line(fmt::format("/proc/{}/stat", pid));
  const std::size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return "";
  std::istringstream fields(line.substr(name_end + 1));
  std::string field;
  fields >> field;
  if (field == "Z" || field == "X") return "ended";
  for (int k = 4; k <= 22; ++k) fields >> field;  // numbered as in proc(5)
  return field;
}

// Only valid on the owner's machine.
bool is_gone(const FolderOwner& owner) {
  if (::kill(owner.pid, 0) != 0 && errno == ESRCH) return true;
  const std::string started = start_time(owner.pid);
  return !started.empty() && started != owner.started;
}

std::string to_text(const FolderOwner& owner) {
  const nlohmann::json json = {{"host", owner.host},
                               {"machine", owner.machine},
                               {"pid", owner.pid},
                               {"started", owner.started},
                               {"id", owner.id}};
  return json.dump() + "\n";
}

// State of the lock file. An owner that has not written its text yet, or could not, has no id.
struct Look {
  FolderOwner owner;
  timespec written{};
  ino_t inode = 0;

  bool operator==(const Look& other) const {
    return owner.id == other.owner.id && inode == other.inode &&
           written.tv_sec == other.written.tv_sec && written.tv_nsec == other.written.tv_nsec;
  }
};

std::optional<Look> look_at(const fs::path& path) {
  Look look;
  // Opening it makes network file systems ask the server.
  const int opened = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (opened < 0) return std::nullopt;
  const Descriptor file(opened);
  struct stat status{};
  if (::fstat(file.get(), &status) != 0) return std::nullopt;
  char text[4096];
  const ssize_t size = ::read(file.get(), text, sizeof text);
  look.written = status.st_mtim;
  look.inode = status.st_ino;
  try {
    const auto json =
        parse_json(std::string(text, static_cast<std::size_t>(std::max<ssize_t>(size, 0))));
    look.owner = {json.at("host"), json.at("machine"), json.at("pid"), json.at("started"),
                  json.at("id")};
  } catch (const std::exception&) {
    look.owner.host = "not known yet";
  }
  return look;
}

// Creates the file. False when it exists.
bool create(const fs::path& path, const FolderOwner& self) {
  const int opened = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (opened < 0) {
    if (errno == EEXIST) return false;
    throw Error(ErrorCategory::kInternal,
                fmt::format("{}: {}", path.string(), std::generic_category().message(errno)),
                "run.output must be a folder that can be written.");
  }
  const Descriptor file(opened);
  const std::string text = to_text(self);
  // On a full disk the file has no text, but the lock holds.
  [[maybe_unused]] const ssize_t written = ::write(file.get(), text.data(), text.size());
  return true;
}

// Decides by several looks at the file whether an owner is dead.
class OwnerObserver {
 public:
  OwnerObserver(std::string machine, std::chrono::milliseconds still)
      : machine_(std::move(machine)), still_(still) {}

  bool is_own_machine(const FolderOwner& owner) const { return owner.machine == machine_; }

  // Called repeatedly with the current state.
  bool is_dead(const Look& look) {
    if (is_own_machine(look.owner)) return is_gone(look.owner);
    const Clock::time_point now = Clock::now();
    if (!last_ || !(*last_ == look)) {
      last_ = look;
      since_ = now;
    }
    return now - since_ >= still_;
  }

 private:
  std::string machine_;
  std::chrono::milliseconds still_;
  std::optional<Look> last_;
  Clock::time_point since_;
};

// Only one process may replace the owner `dead`: the one that created the file named after it.
bool take_over(const fs::path& path, const FolderOwner& dead, const FolderOwner& self) {
  std::error_code ignored;
  const fs::path right = path.string() + ".after-" + (dead.id.empty() ? "unknown" : dead.id);
  if (!create(right, self)) {
    std::this_thread::sleep_for(kTakeoverEndsWithin);
    // The process that created it has exceeded its time, so it has died.
    const auto now = look_at(path);
    if (now && now->owner.id == dead.id) fs::remove(right, ignored);
    return false;
  }
  const auto now = look_at(path);
  const bool is_still_there = now && now->owner.id == dead.id;
  const fs::path mine = path.string() + "." + self.id;
  const bool taken =
      is_still_there && create(mine, self) && std::rename(mine.c_str(), path.c_str()) == 0;
  fs::remove(right, ignored);
  const auto after = look_at(path);
  return taken && after && (after->owner.id == self.id || after->owner.id.empty());
}

[[noreturn]] void reject_second_run(const std::string& who) {
  throw Error(ErrorCategory::kConfig, who,
              "Stop it or wait for its end, or give this run its own run.output.");
}

void claim(const std::string& run_folder, const fs::path& path, const FolderOwner& self,
           const LockTimeouts& limits) {
  const Clock::time_point begin = Clock::now();
  OwnerObserver observer(self.machine, limits.still);
  bool told = false;
  while (!create(path, self)) {
    auto look = look_at(path);
    if (!look) {  // released meanwhile, or unreadable
      look.emplace();
      look->owner.host = "not known";
    } else if (observer.is_dead(*look)) {
      if (take_over(path, look->owner, self)) return;
      continue;
    }
    const auto limit = observer.is_own_machine(look->owner) ? limits.own_machine : limits.elsewhere;
    const std::string who = fmt::format("another job is at work in {} (process {} on host {})",
                                        run_folder, look->owner.pid, look->owner.host);
    if (Clock::now() - begin > limit) reject_second_run(who);
    if (!told && look->owner.pid != 0) {
      log_warning("{}: waiting for its end, {} s at most", who, limit.count() / 1000);
    }
    told = told || look->owner.pid != 0;
    std::this_thread::sleep_for(kLookAtLockEvery);
  }
}

}  // namespace

FolderOwner this_process(const std::string& host) {
  std::error_code ignored;
  const std::string boot = first_line("/proc/sys/kernel/random/boot_id");
  const std::string processes = fs::read_symlink("/proc/self/ns/pid", ignored).string();
  const int pid = ::getpid();
  return {host, boot + " " + processes, pid, start_time(pid), random_id()};
}

RunFolderLock::RunFolderLock(const std::string& run_folder, const FolderOwner& self,
                             const LockTimeouts& limits) {
  const fs::path folder = heartbeat_folder(run_folder);
  make_folders(folder.string(), ErrorCategory::kInternal);
  const fs::path path = folder / kOwnerFile;
  claim(run_folder, path, self, limits);
  // Renews the file's time, not its text, because the time reaches the server immediately.
  const auto renew = [path] { ::utimensat(AT_FDCWD, path.c_str(), nullptr, 0); };
  const auto on_lock_lost = [path, id = self.id] {
    const auto look = look_at(path);
    if (look && (look->owner.id == id || look->owner.id.empty())) ::unlink(path.c_str());
  };
  heartbeats_ = std::make_unique<FileThread>(renew, on_lock_lost, kRenewLockEvery);
}

RunFolderLock::~RunFolderLock() = default;

}  // namespace packtrain
