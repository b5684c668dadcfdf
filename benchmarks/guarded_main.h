// The main() of a benchmark calls it.
#pragma once

#include <cstdio>
#include <exception>

namespace packtrain {

// Returns run_program(argc, argv)'s exit code. After an exception it returns 1 and prints the
// program's name and the error's text on stderr.
inline int guarded_main(const char* name, int (*run_program)(int, char**), int argc, char** argv) {
  try {
    return run_program(argc, argv);
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "%s: %s\n", name, failure.what());
    return 1;
  }
}

}  // namespace packtrain
