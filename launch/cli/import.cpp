// packtrain import: runs the Python tool, which checks its result with this program.
#include "launch/cli/program.h"
#include "launch/cli/tools.h"

namespace packtrain {

int run_import(int argc, char** argv) {
  run_tool_with_program("import_config.py", argc, argv);
}

}  // namespace packtrain
