#include "framework/core/bus_errors.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <mutex>

namespace packtrain {
namespace {

// Read by the signal handler without locks or allocation. `begin` is written last and cleared
// first.
struct Slot {
  std::atomic<std::uintptr_t> begin = 0;  // 0: free
  std::atomic<std::size_t> size = 0;
  std::atomic<const char*> path = nullptr;
  std::atomic<int> exit_code = 0;
};

std::array<Slot, 4096> slots;
std::mutex slots_mutex;  // held by writers
struct sigaction previous_action{};

void print(const char* text, std::size_t size) {
  while (size > 0) {
    const ssize_t written = ::write(STDERR_FILENO, text, size);
    if (written <= 0) return;
    text += written;
    size -= static_cast<std::size_t>(written);
  }
}

void print(const char* text) {
  print(text, std::strlen(text));
}

[[noreturn]] void report(const Slot& slot, std::uintptr_t offset) {
  std::array<char, 24> digits{};
  const auto end = std::to_chars(digits.begin(), digits.end(), offset).ptr;
  print("error: ");
  print(slot.path);
  print(": byte ");
  print(digits.data(), static_cast<std::size_t>(end - digits.data()));
  print(
      " cannot be read any more: the file was cut short while it was in use, or its disk fails\n"
      "  Leave files alone that a run uses; put new ones in place by renaming.\n");
  ::_exit(slot.exit_code);
}

void on_bus_error(int /*signal*/, siginfo_t* info, void* /*context*/) {
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  for (const Slot& slot : slots) {
    const std::uintptr_t begin = slot.begin;
    if (begin != 0 && address - begin < slot.size) report(slot, address - begin);
  }
  // The address is not in our pages. The access repeats after the return and reaches the previous
  // handler.
  ::sigaction(SIGBUS, &previous_action, nullptr);
}

void install() {
  struct sigaction action{};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &action, &previous_action);  // fails only for invalid signals
}

}  // namespace

void name_bus_errors(std::span<const std::byte> pages, const char* path, int exit_code) {
  static std::once_flag once;
  std::call_once(once, install);
  const std::lock_guard lock(slots_mutex);
  for (Slot& slot : slots) {
    if (slot.begin != 0) continue;
    slot.size = pages.size();
    slot.path = path;
    slot.exit_code = exit_code;
    slot.begin = reinterpret_cast<std::uintptr_t>(pages.data());
    return;
  }
}

void forget_bus_errors(std::span<const std::byte> pages) {
  const std::lock_guard lock(slots_mutex);
  const auto begin = reinterpret_cast<std::uintptr_t>(pages.data());
  for (Slot& slot : slots) {
    if (slot.begin == begin) slot.begin = 0;
  }
}

}  // namespace packtrain
