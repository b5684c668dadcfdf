#include "training/guards/stop_signal.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstring>

#include "framework/core/error.h"
#include "framework/core/process.h"

namespace packtrain {
namespace {

constexpr std::array kSignals = {SIGUSR1, SIGTERM, SIGINT, SIGHUP};

// Two threads may handle two signals at the same time.
std::atomic<bool> stop_requested = false;
static_assert(std::atomic<bool>::is_always_lock_free);
std::array<struct sigaction, kSignals.size()> previous_actions{};

// The handlers read one of two, while the other is written.
struct Notice {
  std::array<char, kMaxNoticeBytes> text{};
  std::size_t size = 0;

  void set(std::string_view words) { size = words.copy(text.data(), text.size()); }
  void write() const {
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), size);
  }
};
struct Notices {
  Notice first;
  Notice second;
};
std::array<Notices, 2> notices{};
std::atomic<std::size_t> current_notices = 0;
static_assert(std::atomic<std::size_t>::is_always_lock_free);

// packtrain-run repeats SIGUSR1 every second for ranks that were not ready for the first one. A
// shell and the system may both send SIGHUP. Only a repeated SIGTERM or SIGINT means that the
// process must end.
void on_signal(int signal) {
  const int saved_errno = errno;  // of the code that the signal interrupts
  const Notices& now = notices[current_notices];
  const bool repeated = stop_requested.exchange(true);
  if (!repeated && signal == SIGINT) now.first.write();
  if (repeated && (signal == SIGTERM || signal == SIGINT)) {
    now.second.write();
    kill_children();
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }
  errno = saved_errno;
}

}  // namespace

void set_stop_notice(std::string_view first, std::string_view second) {
  const std::size_t unused = 1 - current_notices;
  notices.at(unused).first.set(first);
  notices.at(unused).second.set(second);
  current_notices = unused;
}

StopSignal::StopSignal() {
  stop_requested = false;
  struct sigaction action{};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  for (std::size_t s = 0; s < kSignals.size(); ++s) {
    int failed = sigaction(kSignals[s], nullptr, &previous_actions[s]);
    const bool is_under_nohup = kSignals[s] == SIGHUP && previous_actions[s].sa_handler == SIG_IGN;
    if (failed == 0 && !is_under_nohup) failed = sigaction(kSignals[s], &action, nullptr);
    if (failed != 0) {
      throw Error(ErrorCategory::kInternal,
                  std::string("cannot install a signal handler: ") + std::strerror(errno));
    }
  }
}

StopSignal::~StopSignal() {
  for (std::size_t s = 0; s < kSignals.size(); ++s) {
    sigaction(kSignals[s], &previous_actions[s], nullptr);  // a failure here has no remedy
  }
}

bool StopSignal::requested() const {
  return stop_requested;
}

}  // namespace packtrain
