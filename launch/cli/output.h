// The program's output: results on standard output, failures as text with an exit code.
#pragma once

#include <exception>
#include <string>
#include <string_view>

namespace packtrain {

// Writes to standard output and flushes. Throws Error(kInternal) when that fails (a full disk, a
// closed pipe), because a lost result must not end in exit code 0.
void print_result(std::string_view text);

struct Failure {
  std::string text;  // "packtrain: configuration error: ..."
  int exit_code;
};

// An Error has its own exit code, any other exception 70.
Failure describe(const std::exception& failure);

}  // namespace packtrain
