// packtrain tune: runs the Python tool, which starts this program for each of its steps.
#include "launch/cli/program.h"
#include "launch/cli/tools.h"

namespace packtrain {

int run_tune(int argc, char** argv) {
  run_tool_with_program("tune.py", argc, argv);
}

}  // namespace packtrain
