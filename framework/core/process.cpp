#include "framework/core/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <system_error>
#include <thread>

#include "framework/core/descriptor.h"
#include "framework/core/error.h"
#include "framework/core/process_environment.h"

namespace packtrain {
namespace {

constexpr int kLowPriority = 10;  // nice value
constexpr std::chrono::milliseconds kFirstPause{1};
constexpr std::chrono::milliseconds kLongestPause{50};
constexpr int kUnknownExitCode = -1;  // another part of this process has waited for the child
constexpr int kFirstInherited = 3;    // the descriptor after standard error

// Groups of running children, for kill_children(). 0: unused.
std::array<std::atomic<pid_t>, 16> running_groups{};
static_assert(std::atomic<pid_t>::is_always_lock_free);

void add_group(pid_t group) {
  for (std::atomic<pid_t>& slot : running_groups) {
    pid_t unused = 0;
    if (slot.compare_exchange_strong(unused, group)) return;
  }
}

void remove_group(pid_t group) {
  for (std::atomic<pid_t>& slot : running_groups) {
    pid_t present = group;
    if (slot.compare_exchange_strong(present, 0)) return;
  }
}

// A copy of a descriptor that no standard stream of the child replaces, or of /dev/null.
Descriptor copy_of(int descriptor) {
  if (descriptor < 0) return Descriptor("/dev/null", O_WRONLY, ErrorCategory::kInternal);
  const int copy = ::fcntl(descriptor, F_DUPFD_CLOEXEC, kFirstInherited);
  if (copy < 0) fail_on("output of a child", "dup", errno, ErrorCategory::kInternal);
  return Descriptor(copy);
}

class FileActions {
 public:
  FileActions(int output, int error_output) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions_, output, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions_, error_output, STDERR_FILENO);
    posix_spawn_file_actions_addclosefrom_np(&actions_, kFirstInherited);
  }
  ~FileActions() { posix_spawn_file_actions_destroy(&actions_); }
  FileActions(const FileActions&) = delete;
  FileActions& operator=(const FileActions&) = delete;
  const posix_spawn_file_actions_t* get() const { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_{};
};

// A group of its own, no other blocked signal, and the default action for each that this program
// handles.
class SpawnAttributes {
 public:
  explicit SpawnAttributes(bool blocks_sigterm) {
    posix_spawnattr_init(&attributes_);
    sigset_t blocked;
    sigemptyset(&blocked);
    if (blocks_sigterm) sigaddset(&blocked, SIGTERM);
    posix_spawnattr_setsigmask(&attributes_, &blocked);
    sigset_t reset;
    sigemptyset(&reset);
    for (const int signal :
         {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGPIPE, SIGXFSZ, SIGCHLD}) {
      sigaddset(&reset, signal);
    }
    posix_spawnattr_setsigdefault(&attributes_, &reset);
    posix_spawnattr_setpgroup(&attributes_, 0);
    posix_spawnattr_setflags(
        &attributes_, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  ~SpawnAttributes() { posix_spawnattr_destroy(&attributes_); }
  SpawnAttributes(const SpawnAttributes&) = delete;
  SpawnAttributes& operator=(const SpawnAttributes&) = delete;
  const posix_spawnattr_t* get() const { return &attributes_; }

 private:
  posix_spawnattr_t attributes_{};
};

// Pointers to the texts, and a null.
std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

std::string ProcessEnd::describe() const {
  if (signal != 0) return fmt::format("signal {}", signal);
  if (exit_code == kUnknownExitCode) return "an unknown exit code";
  return fmt::format("exit code {}", exit_code);
}

Process::Process(const ProcessOptions& options) : name_(options.words.at(0)) {
  std::vector<std::string> words = options.words;
  std::vector<std::string> variables = environment_of_child(options.variables);
  const Descriptor output = copy_of(options.output);
  const Descriptor error_output = copy_of(options.error_output);
  const FileActions actions(output.get(), error_output.get());
  const SpawnAttributes attributes(options.blocks_sigterm);
  const int failure = ::posix_spawnp(&id_, name_.c_str(), actions.get(), attributes.get(),
                                     pointers_to(words).data(), pointers_to(variables).data());
  if (failure != 0) {
    throw Error(ErrorCategory::kConfig,
                fmt::format("cannot start {}: {}", name_, std::generic_category().message(failure)),
                "Give the path of a program that this process may run, or a name that is on PATH.");
  }
  add_group(id_);
  if (options.low_priority) ::setpriority(PRIO_PROCESS, static_cast<id_t>(id_), kLowPriority);
}

Process::~Process() {
  if (end_) return;
  send(SIGKILL);
  wait();
}

// Leaves the process a zombie, so that its group is not given to another process before wait().
bool Process::has_ended() const {
  siginfo_t found{};
  for (;;) {
    if (::waitid(P_PID, static_cast<id_t>(id_), &found, WEXITED | WNOHANG | WNOWAIT) == 0) {
      return found.si_pid != 0;
    }
    if (errno != EINTR) return true;  // someone else has waited for it
  }
}

bool Process::ends_within(std::chrono::duration<double> limit) const {
  const auto begin = std::chrono::steady_clock::now();
  auto pause = kFirstPause;
  while (!has_ended()) {
    if (std::chrono::steady_clock::now() - begin >= limit) return false;
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, kLongestPause);
  }
  return true;
}

std::optional<ProcessEnd> Process::wait(std::chrono::duration<double> limit) {
  if (!end_ && ends_within(limit)) wait();
  return end_;
}

ProcessEnd Process::wait() {
  if (end_) return *end_;
  int status = 0;
  pid_t waited = 0;
  siginfo_t ignored{};
  while (::waitid(P_PID, static_cast<id_t>(id_), &ignored, WEXITED | WNOWAIT) != 0 &&
         errno == EINTR) {
  }
  remove_group(id_);
  do {
    waited = ::waitpid(id_, &status, 0);
  } while (waited < 0 && errno == EINTR);
  end_ = ProcessEnd{.exit_code = kUnknownExitCode};
  if (waited == id_) {
    end_ = WIFSIGNALED(status) ? ProcessEnd{.signal = WTERMSIG(status)}
                               : ProcessEnd{.exit_code = WEXITSTATUS(status)};
  }
  return *end_;
}

ProcessEnd Process::end(std::chrono::duration<double> grace) {
  if (end_) return *end_;
  send(SIGTERM);
  ends_within(grace);
  send(SIGKILL);  // also to what outlives the program that it started
  return wait();
}

void Process::send(int signal) const {
  if (!end_) ::kill(-id_, signal);
}

void kill_children() noexcept {
  for (const std::atomic<pid_t>& slot : running_groups) {
    if (const pid_t group = slot.load(); group > 0) ::kill(-group, SIGKILL);
  }
}

}  // namespace packtrain
