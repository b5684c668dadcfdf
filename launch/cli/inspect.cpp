// packtrain inspect: runs the Python tool, which asks this program for a step's plan.
#include "launch/cli/program.h"
#include "launch/cli/tools.h"

namespace packtrain {

int run_inspect(int argc, char** argv) {
  run_tool_with_program("inspect_examples.py", argc, argv);
}

}  // namespace packtrain
