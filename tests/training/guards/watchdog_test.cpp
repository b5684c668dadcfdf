// The thread that ends a process which stands still, and leaves one alone that does not.
#include "training/guards/watchdog.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "framework/core/file.h"
#include "parallel/communicators/world.h"
#include "tests/helpers/temporary_folder.h"
#include "training/guards/heartbeat.h"

namespace packtrain {
namespace {

using std::chrono::milliseconds;
using test::TemporaryFolder;

GuardSection limits(double seconds) {
  GuardSection guard;
  guard.start_timeout_s = guard.step_timeout_s = guard.checkpoint_timeout_s = seconds;
  return guard;
}

TEST(Watchdog, IsOverdueFromHalfOfThePhasesLimitOn) {
  const TemporaryFolder folder;
  const std::unique_ptr<World> world = join_world();
  GuardSection guard = limits(0);
  guard.step_timeout_s = 600;
  guard.checkpoint_timeout_s = 12;  // so long that a busy machine does not reach it here
  {
    Watchdog watchdog(guard, folder.path(), *world);
    EXPECT_EQ(watchdog.overdue(), "") << "the start has no limit here";
    watchdog.enter(RunPhase::kStep, 12);
    EXPECT_EQ(watchdog.overdue(), "");
    const auto begin = std::chrono::steady_clock::now();
    watchdog.enter(RunPhase::kCheckpoint, 12);
    std::string reason;
    while ((reason = watchdog.overdue()).empty()) std::this_thread::sleep_for(milliseconds(20));
    watchdog.enter(RunPhase::kStep, 13);
    EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::seconds(6));
    EXPECT_NE(reason.find("guard.checkpoint_timeout_s is 12"), std::string::npos) << reason;
    EXPECT_NE(reason.find("step 12"), std::string::npos) << reason;
    EXPECT_EQ(watchdog.overdue(), "");
  }
}

TEST(Watchdog, WritesAHeartbeatAndRemovesIt) {
  const TemporaryFolder folder;
  const std::string sign = folder / "progress/rank-0.json";
  {
    const std::unique_ptr<World> world = join_world();
    Watchdog watchdog(limits(60), folder.path(), *world);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    const auto wait_for = [&](const std::string& text) {
      while (!std::filesystem::exists(sign) ||
             read_text(sign, ErrorCategory::kInternal).find(text) == std::string::npos) {
        ASSERT_LT(std::chrono::steady_clock::now(), deadline);
        std::this_thread::sleep_for(milliseconds(20));
      }
    };
    wait_for("\"step\":0");
    watchdog.enter(RunPhase::kStep, 12);
    wait_for("\"step\":12");
  }
  EXPECT_FALSE(std::filesystem::exists(sign));
}

TEST(Watchdog, StartsAndEndsImmediatelyAnyNumberOfTimes) {
  const TemporaryFolder folder;
  const std::unique_ptr<World> world = join_world();
  for (int round = 0; round < 50; ++round) {
    Watchdog watchdog(limits(60), folder.path(), *world);
    for (std::int64_t step = 1; step < 20; ++step) watchdog.enter(RunPhase::kStep, step);
  }
}

TEST(Watchdog, TakesPhasesFromOneThreadWhileItsOwnReadsThem) {
  const std::unique_ptr<World> world = join_world();
  std::vector<TemporaryFolder> folders(4);
  std::vector<std::unique_ptr<Watchdog>> watchdogs;
  for (const TemporaryFolder& folder : folders) {
    watchdogs.push_back(std::make_unique<Watchdog>(limits(60), folder.path(), *world));
  }
  const auto end = std::chrono::steady_clock::now() + milliseconds(2500);
  for (std::int64_t step = 1; std::chrono::steady_clock::now() < end; ++step) {
    for (const auto& watchdog : watchdogs) {
      watchdog->enter(step % 3 == 0 ? RunPhase::kCheckpoint : RunPhase::kStep, step);
    }
    std::this_thread::sleep_for(milliseconds(1));
  }
}

// A rank of more ranks than there are.
class RankOfMany final : public World {
 public:
  RankOfMany(int rank, int size) : rank_(rank), size_(size) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int local_rank() const override { return 0; }
  int local_size() const override { return 1; }
  const std::string& host() const override { return real_->host(); }
  Backend on_cpu() const override { return real_->on_cpu(); }
  Communicator& control() override { return real_->control(); }
  std::unique_ptr<Communicator> connect(Backend backend,
                                        const CommunicatorOptions& options) override {
    return real_->connect(backend, options);
  }
  [[noreturn]] void fail(const std::string& text, int exit_code) override {
    real_->fail(text, exit_code);
    std::abort();  // gcc does not see that a virtual function never returns
  }

 private:
  int rank_;
  int size_;
  std::unique_ptr<World> real_ = join_world();
};

TEST(Watchdog, HasAtMostSixteenReadersOfHeartbeats) {
  for (const int num_ranks : {1, 2, 16, 17, 33, 100, 4096, 100'003}) {
    int num_readers = 0;
    for (int rank = 0; rank < num_ranks; ++rank) {
      num_readers += reads_all_heartbeats(rank, num_ranks) ? 1 : 0;
    }
    EXPECT_TRUE(reads_all_heartbeats(0, num_ranks));
    EXPECT_LE(num_readers, 16) << num_ranks;
    EXPECT_GE(num_readers, std::min(num_ranks, 9)) << num_ranks;
  }
}

void stand_still_as(int rank, const std::string& folder) {
  RankOfMany world(rank, 64);
  GuardSection guard = limits(0);
  guard.step_timeout_s = 0.5;  // the start may take its time
  Watchdog watchdog(guard, folder, world);
  watchdog.enter(RunPhase::kStep, 5);
  std::this_thread::sleep_for(std::chrono::minutes(10));
}

TEST(WatchdogDeathTest, NamesMissingRanksOnlyWhereItReadsTheHeartbeats) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const TemporaryFolder folder;
  EXPECT_EXIT(stand_still_as(4, folder.path()), ::testing::ExitedWithCode(72),
              "missing: rank 0 has written no heartbeat");
  EXPECT_EXIT(stand_still_as(5, folder.path()), ::testing::ExitedWithCode(72),
              "missing: not read by this rank; rank 0 and each 4th one after it say it");
}

void stand_still(const std::string& folder) {
  const std::unique_ptr<World> world = join_world();
  GuardSection guard = limits(0);
  guard.step_timeout_s = 0.5;  // the start may take its time
  Watchdog watchdog(guard, folder, *world);
  watchdog.enter(RunPhase::kStep, 5);
  std::this_thread::sleep_for(std::chrono::minutes(10));
}

TEST(WatchdogDeathTest, EndsAProcessWithoutProgress) {
  // A process of its own: the thread of this one would not be there after a fork.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const TemporaryFolder folder;
  EXPECT_EXIT(stand_still(folder.path()), ::testing::ExitedWithCode(72),
              "rank 0: no progress for .* at step 5 \\(step; guard.step_timeout_s is 0.5\\)");
}

}  // namespace
}  // namespace packtrain
