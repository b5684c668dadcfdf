// packtrain chat: runs the Python tool, which exports a run with this program.
#include "launch/cli/program.h"
#include "launch/cli/tools.h"

namespace packtrain {

int run_chat(int argc, char** argv) {
  run_tool_with_program("chat.py", argc, argv);
}

}  // namespace packtrain
