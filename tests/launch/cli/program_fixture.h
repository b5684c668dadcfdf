// Running the built program in a folder of a test's own.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <string>
#include <string_view>

#include "tests/helpers/temporary_folder.h"

namespace packtrain {

struct Outcome {
  int exit_code = -1;
  std::string said;  // standard output and standard error
};

inline Outcome run_shell(const std::string& command) {
  // NOLINTNEXTLINE(bugprone-command-processor): commands of tests alone
  FILE* const pipe = popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) throw Error(ErrorCategory::kInternal, "popen failed: " + command);
  Outcome outcome;
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) {
    outcome.said.push_back(static_cast<char>(c));
  }
  const int status = pclose(pipe);
  if (WIFEXITED(status)) outcome.exit_code = WEXITSTATUS(status);
  return outcome;
}

class ProgramTest : public ::testing::Test {
 protected:
  // Runs `packtrain ARGUMENTS` in the test's folder.
  Outcome packtrain(const std::string& arguments, const std::string& before = "") const {
    return run_shell("cd " + folder_.path() + " && " + before + " " + PROGRAM + " " + arguments);
  }

  void write(const char* name, std::string_view text) const {
    test::write_bytes(folder_ / name, text);
  }

  test::TemporaryFolder folder_;
};

inline std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

}  // namespace packtrain
