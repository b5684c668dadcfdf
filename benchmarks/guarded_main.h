// What the main() of a benchmark does.
#pragma once

#include <cstdio>
#include <exception>

namespace packtrain {

// run_program(argc, argv)'s exit code; 1 with the error's text, behind the program's name, on
// stderr.
inline int guarded_main(const char* name, int (*run_program)(int, char**), int argc, char** argv) {
  try {
    return run_program(argc, argv);
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "%s: %s\n", name, failure.what());
    return 1;
  }
}

}  // namespace packtrain
