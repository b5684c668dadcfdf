#include "launch/cli/output.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "framework/core/error.h"

namespace packtrain {

void print_result(std::string_view text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (written && std::fflush(stdout) == 0) return;
  throw Error(ErrorCategory::kInternal,
              fmt::format("cannot write to standard output: {}", std::strerror(errno)));
}

Failure describe(const std::exception& failure) {
  const auto* error = dynamic_cast<const Error*>(&failure);
  if (error == nullptr) {
    return {fmt::format("packtrain: internal error: {}", failure.what()),
            static_cast<int>(ErrorCategory::kInternal)};
  }
  const bool is_stop = error->category() == ErrorCategory::kStopped;
  return {fmt::format("packtrain: {}{}: {}", category_name(error->category()),
                      is_stop ? "" : " error", error->what()),
          error->exit_code()};
}

}  // namespace packtrain
