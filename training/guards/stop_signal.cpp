#include "training/guards/stop_signal.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstring>

#include "framework/core/error.h"

namespace packtrain {
namespace {

constexpr std::array kSignals = {SIGUSR1, SIGTERM, SIGINT};

// Two threads may handle two signals at the same time.
std::atomic<bool> stop_requested = false;
static_assert(std::atomic<bool>::is_always_lock_free);
std::array<struct sigaction, kSignals.size()> previous_actions{};

// packtrain-run repeats SIGUSR1 every second for ranks that were not ready for the first one. Only
// a repeated SIGTERM or SIGINT means that the process must end.
void on_signal(int signal) {
  if (stop_requested.exchange(true) && signal != SIGUSR1) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }
}

}  // namespace

StopSignal::StopSignal() {
  stop_requested = false;
  struct sigaction action{};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  for (std::size_t s = 0; s < kSignals.size(); ++s) {
    if (sigaction(kSignals[s], &action, &previous_actions[s]) != 0) {
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
