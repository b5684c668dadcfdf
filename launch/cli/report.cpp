// packtrain report: runs the Python tool, which asks this program for the runs' plans.
#include "launch/cli/program.h"
#include "launch/cli/tools.h"

namespace packtrain {

int run_report(int argc, char** argv) {
  run_tool_with_program("report.py", argc, argv);
}

}  // namespace packtrain
