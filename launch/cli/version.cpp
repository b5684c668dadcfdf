#include <fmt/format.h>

#include "launch/cli/arguments.h"
#include "launch/cli/output.h"
#include "launch/cli/program.h"

namespace packtrain {

int run_version(int argc, char** argv) {
  CLI::App app("Prints the version.", "packtrain version");
  if (!parse_arguments(app, argc, argv)) return 0;
  print_result(fmt::format("packtrain {} ({} CUDA)\n", PACKTRAIN_VERSION, PACKTRAIN_CUDA_BUILT));
  return 0;
}

}  // namespace packtrain
