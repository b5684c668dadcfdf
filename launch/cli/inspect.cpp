// packtrain inspect: runs the Python tool, which asks this program for a step's plan.
#include <filesystem>
#include <string>
#include <vector>

#include "launch/cli/program.h"
#include "launch/cli/tools.h"

namespace packtrain {

int run_inspect(int argc, char** argv) {
  std::string program = "--program=" + std::filesystem::read_symlink("/proc/self/exe").string();
  std::vector<char*> arguments = {program.data()};
  arguments.insert(arguments.end(), argv + 1, argv + argc);
  run_tool("inspect_examples.py", arguments);
}

}  // namespace packtrain
