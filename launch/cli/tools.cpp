#include "launch/cli/tools.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "framework/core/error.h"
#include "framework/core/process.h"

namespace packtrain {
namespace {

std::string find_tool(const std::string& file) {
  const std::filesystem::path program_folder =
      std::filesystem::read_symlink("/proc/self/exe").parent_path();
  std::string tried;
  for (const char* folder : {"../python", "../../launch/python"}) {
    const auto path = (program_folder / folder / file).lexically_normal();
    if (std::filesystem::exists(path)) return path.string();
    tried += fmt::format("{}{}", tried.empty() ? "" : ", ", path.string());
  }
  throw Error(ErrorCategory::kConfig, fmt::format("cannot find {}: looked at {}", file, tried),
              "Keep the program in its bundle or build folder.");
}

std::string find_python() {
  const char* const chosen = std::getenv("PACKTRAIN_PYTHON");
  if (chosen != nullptr && chosen[0] != '\0') return chosen;
  if (::access(PACKTRAIN_BUILD_PYTHON, X_OK) == 0) return PACKTRAIN_BUILD_PYTHON;
  return "python3";
}

}  // namespace

void run_tool(const std::string& file, std::span<char* const> arguments) {
  std::string python = find_python();
  std::string tool = find_tool(file);
  std::vector<char*> command = {python.data(), tool.data()};
  command.insert(command.end(), arguments.begin(), arguments.end());
  command.push_back(nullptr);
  ::execvp(python.c_str(), command.data());
  throw Error(ErrorCategory::kConfig,
              fmt::format("cannot start {} for {}: {}", python, tool, std::strerror(errno)),
              "Run launch/setup, or set PACKTRAIN_PYTHON to a Python that has the packages of "
              "launch/requirements.txt.");
}

void run_tool_with_program(const std::string& file, int argc, char** argv) {
  std::string program = "--program=" + std::filesystem::read_symlink("/proc/self/exe").string();
  std::vector<char*> arguments = {program.data()};
  arguments.insert(arguments.end(), argv + 1, argv + argc);
  run_tool(file, arguments);
}

std::string call_tool(const std::string& file, const std::vector<std::string>& arguments) {
  std::vector<std::string> words;
  try {
    words = {find_python(), find_tool(file)};
  } catch (const Error& error) {
    return error.message();
  }
  words.insert(words.end(), arguments.begin(), arguments.end());
  try {
    Process process({.words = words, .output = STDERR_FILENO, .error_output = STDERR_FILENO});
    const ProcessEnd end = process.wait();
    return end.succeeded() ? "" : fmt::format("{} ended with {}", file, end.describe());
  } catch (const Error& error) {
    return error.message();
  }
}

}  // namespace packtrain
