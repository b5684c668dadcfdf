// packtrain push: runs the Python tool, which asks this program for its version.
#include "launch/cli/program.h"
#include "launch/cli/tools.h"

namespace packtrain {

int run_push(int argc, char** argv) {
  run_tool_with_program("push.py", argc, argv);
}

}  // namespace packtrain
