// Exits a process in which something hangs or may hang, without calling any library.
#pragma once

#include <string>

#include "framework/core/error.h"

namespace packtrain {

// Uses write(2), because a hanging thread may hold the locks of stdio.
void print_unbuffered(const std::string& text);

// Prints, waits until the other ranks can print their errors, and exits with the category's exit
// code.
[[noreturn]] void fast_exit(const std::string& text, ErrorCategory category);

}  // namespace packtrain
