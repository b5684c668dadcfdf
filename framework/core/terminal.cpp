#include "framework/core/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace packtrain {

std::size_t terminal_width() {
  if (const char* told = std::getenv("PACKTRAIN_TERMINAL_WIDTH")) {
    return std::strtoul(told, nullptr, 10);
  }
  const char* term = std::getenv("TERM");
  if (isatty(STDERR_FILENO) != 1 || term == nullptr || std::string_view(term) == "dumb") return 0;
  constexpr std::size_t kUsual = 80;
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUsual;
}

}  // namespace packtrain
