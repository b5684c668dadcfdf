// Tests child processes: what they inherit, how they end, and what stays of them.
#include "framework/core/process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "framework/core/descriptor.h"
#include "framework/core/error.h"
#include "framework/core/file.h"
#include "framework/core/process_environment.h"
#include "tests/helpers/temporary_folder.h"

namespace packtrain {
namespace {

using test::TemporaryFolder;

constexpr std::chrono::seconds kPatience{60};

class ProcessTest : public ::testing::Test {
 protected:
  // Returns what a shell command prints.
  std::string output_of(const std::string& script,
                        std::vector<std::pair<std::string, std::string>> variables = {}) {
    {
      const Descriptor file(path_, O_WRONLY | O_CREAT | O_TRUNC, ErrorCategory::kInternal);
      Process process(
          {.words = {"sh", "-c", script}, .variables = std::move(variables), .output = file.get()});
      end_ = process.wait();
    }
    return read_text(path_, ErrorCategory::kInternal);
  }

  TemporaryFolder folder_;
  std::string path_ = folder_ / "output";
  ProcessEnd end_;
};

TEST_F(ProcessTest, ArgumentsReachTheProgramUnchanged) {
  const Descriptor file(path_, O_WRONLY | O_CREAT, ErrorCategory::kInternal);
  Process process({.words = {"printf", "%s|", "a b", "$HOME", "*", "'"}, .output = file.get()});
  EXPECT_TRUE(process.wait().succeeded());
  EXPECT_EQ(read_text(path_, ErrorCategory::kInternal), "a b|$HOME|*|'|");
}

TEST_F(ProcessTest, AnExitCodeIsDistinguishedFromASignal) {
  output_of("exit 3");
  EXPECT_EQ(end_.describe(), "exit code 3");
  output_of("kill -KILL $$");
  EXPECT_EQ(end_.describe(), "signal 9");
}

TEST_F(ProcessTest, AProgramThatIsMissingIsNamed) {
  try {
    const Process process({.words = {"no-such-program"}});
    FAIL() << "started";
  } catch (const Error& error) {
    EXPECT_EQ(error.category(), ErrorCategory::kConfig);
    EXPECT_NE(error.message().find("cannot start no-such-program: No such file"), std::string::npos)
        << error.message();
  }
  EXPECT_FALSE(is_program("no-such-program"));
  EXPECT_FALSE(is_program("/tmp"));
  EXPECT_TRUE(is_program("sh"));
  EXPECT_TRUE(is_program("/bin/sh"));
}

TEST_F(ProcessTest, VariablesOfRanksAreLeftOut) {
  const char* const ours[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "RANK", "SLURM_PROCID"};
  for (const char* name : ours) ::setenv(name, "1", 1);
  ::setenv("SLURM_JOB_ID", "7", 1);
  const std::string found = output_of("env", {{"PACKTRAIN_STEP", "5"}, {"HOME", "/elsewhere"}});
  for (const char* name : ours) {
    EXPECT_EQ(("\n" + found).find(std::string("\n") + name + "="), std::string::npos) << name;
    ::unsetenv(name);
  }
  ::unsetenv("SLURM_JOB_ID");
  EXPECT_NE(found.find("SLURM_JOB_ID=7\n"), std::string::npos);
  EXPECT_NE(found.find("PACKTRAIN_STEP=5\n"), std::string::npos);
  EXPECT_NE(found.find("HOME=/elsewhere\n"), std::string::npos);
}

TEST_F(ProcessTest, NoOtherDescriptorIsInherited) {
  const int open_in_child = ::open("/dev/null", O_RDONLY);  // without O_CLOEXEC
  const std::string path = "/proc/$$/fd/" + std::to_string(open_in_child);
  const std::string found = output_of("test -e " + path + " && echo open || echo closed");
  ::close(open_in_child);
  EXPECT_EQ(found, "closed\n");
}

TEST_F(ProcessTest, SignalsHaveTheirDefaultActionAndAreNotBlocked) {
  sigset_t blocked;
  sigset_t before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &blocked, &before);
  const auto previous = std::signal(SIGINT, SIG_IGN);
  // The C library ignores signals 32 and 33 in every process that it starts.
  const std::string found = output_of("grep -E 'SigBlk|SigIgn' /proc/self/status");
  std::signal(SIGINT, previous);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  EXPECT_NE(found.find("SigBlk:\t0000000000000000\n"), std::string::npos) << found;
  EXPECT_TRUE(found.ends_with("0000000\n")) << found;  // signals 1 to 28
}

TEST_F(ProcessTest, AWaitEndsAtItsLimit) {
  Process process({.words = {"sleep", "100"}});
  EXPECT_EQ(process.wait(std::chrono::milliseconds(10)), std::nullopt);
  EXPECT_EQ(process.end(kPatience).describe(), "signal 15");
}

TEST_F(ProcessTest, AProgramThatIgnoresTheRequestToEndIsKilled) {
  const Descriptor file(path_, O_WRONLY | O_CREAT, ErrorCategory::kInternal);
  Process process({.words = {"sh", "-c", "trap '' TERM; echo ready; sleep 100; sleep 100"},
                   .output = file.get()});
  while (read_text(path_, ErrorCategory::kInternal).empty()) ::usleep(1000);
  EXPECT_EQ(process.end(std::chrono::milliseconds(50)).describe(), "signal 9");
}

TEST_F(ProcessTest, ARequestToEndWaitsForAProgramThatUnblocksIt) {
  Process process({.words = {"sleep", "0.2"}, .blocks_sigterm = true});
  EXPECT_EQ(process.end(kPatience).describe(), "exit code 0");
}

// The process that a shell started, whose number the shell wrote.
bool is_gone(const std::string& path) {
  const int process = std::stoi(read_text(path, ErrorCategory::kInternal));
  for (int k = 0; k < 5000 && ::kill(process, 0) == 0; ++k) {
    const std::string state =
        read_text("/proc/" + std::to_string(process) + "/stat", ErrorCategory::kInternal);
    if (state.find(") Z") != std::string::npos) return true;  // this process is not its parent
    ::usleep(1000);
  }
  return ::kill(process, 0) != 0;
}

TEST_F(ProcessTest, TheObjectEndsWithAllThatTheProgramStarted) {
  const Descriptor file(path_, O_WRONLY | O_CREAT, ErrorCategory::kInternal);
  {
    Process process({.words = {"sh", "-c", "sleep 100 & echo $!; wait"}, .output = file.get()});
    while (read_text(path_, ErrorCategory::kInternal).empty()) ::usleep(1000);
  }
  EXPECT_TRUE(is_gone(path_));
}

TEST_F(ProcessTest, WhatIgnoresTheRequestAndOutlivesTheProgramIsKilled) {
  const Descriptor file(path_, O_WRONLY | O_CREAT, ErrorCategory::kInternal);
  Process process({.words = {"sh", "-c", "(trap '' TERM; sleep 100) & sleep 0.1; echo $!; wait"},
                   .output = file.get()});
  while (read_text(path_, ErrorCategory::kInternal).empty()) ::usleep(1000);
  EXPECT_EQ(process.end(kPatience).describe(), "signal 15");
  EXPECT_TRUE(is_gone(path_));
}

TEST_F(ProcessTest, AProcessThatEndsWithoutUnwindingKillsItsChildren) {
  Process process({.words = {"sleep", "100"}});
  Process ended({.words = {"true"}});
  ended.wait();
  kill_children();
  EXPECT_EQ(process.wait().describe(), "signal 9");
}

}  // namespace
}  // namespace packtrain
