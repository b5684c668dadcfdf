// packtrain follow: runs the Python tool.
#include "launch/cli/program.h"
#include "launch/cli/tools.h"

namespace packtrain {

int run_follow(int argc, char** argv) {
  run_tool("follow.py", {argv + 1, static_cast<std::size_t>(argc - 1)});
}

}  // namespace packtrain
