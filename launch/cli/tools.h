// Starts the program's Python tools (launch/python).
#pragma once

#include <span>
#include <string>
#include <vector>

namespace packtrain {

// Replaces this process by a tool, with unchanged arguments. `file` is its name in the tools
// folder, which is found from the program's own path: in a bundle (DIR/bin, DIR/python) or a build
// folder. Python is $PACKTRAIN_PYTHON, else that of the environment at build time, else python3 on
// PATH. Throws Error(kConfig) when either is missing.
[[noreturn]] void run_tool(const std::string& file, std::span<char* const> arguments);

// The same for a tool that starts this program: its first argument is --program=PATH. argv[0] is
// the subcommand's name.
[[noreturn]] void run_tool_with_program(const std::string& file, int argc, char** argv);

// Runs a tool and waits for it. Its output goes to standard error. Returns "" on success, else the
// reason of the failure. Throws nothing.
std::string call_tool(const std::string& file, const std::vector<std::string>& arguments);

}  // namespace packtrain
