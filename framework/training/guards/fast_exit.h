// The end of a process in which something hangs or may: not one more word to any library.
#pragma once

#include <string>

#include "framework/support/error.h"

namespace packtrain {

// By write(2): stdio's locks may be held by what hangs.
void print_unbuffered(const std::string& text);

// Prints, gives the other ranks the time to print theirs, and ends with the category's exit code.
[[noreturn]] void fast_exit(const std::string& text, ErrorCategory category);

}  // namespace packtrain
