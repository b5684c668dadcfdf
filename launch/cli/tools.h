// The Python tools that belong to the program (launch/tools).
#pragma once

#include <span>
#include <string>
#include <vector>

namespace packtrain {

// Replaces this process by a tool, with the arguments as they are. `file` is its name in the tools
// folder, which is found from the program's own place: in a bundle (DIR/bin, DIR/tools) or a build
// folder. Python is $PACKTRAIN_PYTHON, else the one of the environment this program was built with,
// else python3 on PATH. Throws Error(kConfig) when either is missing.
[[noreturn]] void run_tool(const std::string& file, std::span<char* const> arguments);

// Runs a tool and waits for it; what it prints goes to standard error. Returns "" when it
// succeeded, else what went wrong. Throws nothing.
std::string call_tool(const std::string& file, const std::vector<std::string>& arguments);

}  // namespace packtrain
