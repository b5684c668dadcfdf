// Tests the lock of a run's folder: one job at a time writes, and a dead job blocks no other.
#include "training/guards/run_folder_lock.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "framework/core/error.h"
#include "tests/helpers/temporary_folder.h"

namespace packtrain {
namespace {

using std::chrono::milliseconds;
using test::TemporaryFolder;

constexpr LockTimeouts kShort{milliseconds(300), milliseconds(3000), milliseconds(1000)};

void write_owner(const std::string& run, const FolderOwner& owner) {
  std::filesystem::create_directories(run + "/progress");
  const nlohmann::json json = {{"host", owner.host},
                               {"machine", owner.machine},
                               {"pid", owner.pid},
                               {"started", owner.started},
                               {"id", owner.id}};
  test::write_bytes(run + "/progress/owner", json.dump());
}

int ended_process() {
  const int pid = ::fork();
  if (pid == 0) ::_exit(0);
  ::waitpid(pid, nullptr, 0);
  return pid;
}

void expect_refused(const std::string& run) {
  try {
    const RunFolderLock claim(run, this_process("here"), kShort);
    FAIL() << "two own it";
  } catch (const Error& error) {
    EXPECT_EQ(error.category(), ErrorCategory::kConfig);
    EXPECT_NE(error.message().find(fmt::format("process {} on host there", ::getpid())),
              std::string::npos)
        << error.message();
  }
}

TEST(RunFolderLock, IsOfOneAtATimeAndRefusesOthersByProcessAndHost) {
  const TemporaryFolder folder;
  {
    const RunFolderLock first(folder.path(), this_process("there"), kShort);
    expect_refused(folder.path());
  }
  const RunFolderLock second(folder.path(), this_process("here"), kShort);
}

TEST(RunFolderLock, RemovesItsFiles) {
  const TemporaryFolder folder;
  {
    const RunFolderLock claim(folder.path(), this_process("here"), kShort);
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder / "progress"));
}

TEST(RunFolderLock, TakesOverFromAProcessThatIsGone) {
  const TemporaryFolder folder;
  FolderOwner dead = this_process("there");
  dead.pid = ended_process();
  write_owner(folder.path(), dead);
  const RunFolderLock claim(folder.path(), this_process("here"), kShort);
}

TEST(RunFolderLock, TakesOverWhereTheProcessNumberIsAnothersNow) {
  const TemporaryFolder folder;
  FolderOwner dead = this_process("there");
  dead.started = std::string("1");
  write_owner(folder.path(), dead);
  const RunFolderLock claim(folder.path(), this_process("here"), kShort);
}

TEST(RunFolderLock, TakesOverFromAnotherMachineWhoseHeartbeatStopped) {
  const TemporaryFolder folder;
  FolderOwner other = this_process("there");
  other.machine = std::string("elsewhere");
  write_owner(folder.path(), other);
  const auto begin = std::chrono::steady_clock::now();
  const RunFolderLock claim(folder.path(), this_process("here"), kShort);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, kShort.still);
}

TEST(RunFolderLock, IsRefusedByAnotherMachineWhoseHeartbeatMoves) {
  const TemporaryFolder folder;
  FolderOwner other = this_process("there");
  other.machine = std::string("elsewhere");
  const RunFolderLock first(folder.path(), other, kShort);
  expect_refused(folder.path());
}

TEST(RunFolderLock, OfManyThatFindADeadOwnerExactlyOneGetsIt) {
  for (int round = 0; round < 8; ++round) {
    const TemporaryFolder folder;
    FolderOwner dead = this_process("there");
    dead.started = std::string("1");
    write_owner(folder.path(), dead);
    std::atomic<int> num_owners = 0;
    std::atomic<int> num_over = 0;
    std::vector<std::thread> threads;
    constexpr int kThreads = 6;
    for (int k = 0; k < kThreads; ++k) {
      threads.emplace_back([&] {
        try {
          const RunFolderLock claim(folder.path(), this_process("here"), kShort);
          ++num_owners;
          ++num_over;
          while (num_over < kThreads) std::this_thread::sleep_for(milliseconds(5));
        } catch (const Error&) {
          ++num_over;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(num_owners, 1);
  }
}

}  // namespace
}  // namespace packtrain
