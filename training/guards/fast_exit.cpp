#include "training/guards/fast_exit.h"

#include <unistd.h>

#include <chrono>
#include <system_error>
#include <thread>

#include "framework/core/process.h"

namespace packtrain {
namespace {

constexpr std::chrono::milliseconds kOthersReport{700};  // before mpirun ends all ranks

}  // namespace

void print_unbuffered(const std::string& text) {
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t written = ::write(STDERR_FILENO, text.data() + done, text.size() - done);
    if (written <= 0) return;
    done += static_cast<std::size_t>(written);
  }
}

void fast_exit(const std::string& text, ErrorCategory category) {
  try {  // standard error may be a file on a file system that hangs
    std::thread([text] { print_unbuffered(text); }).detach();
  } catch (const std::system_error&) {
    print_unbuffered(text);
  }
  std::this_thread::sleep_for(kOthersReport);
  kill_children();
  ::_exit(static_cast<int>(category));
}

}  // namespace packtrain
