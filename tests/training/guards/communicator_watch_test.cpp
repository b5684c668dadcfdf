// The thread that asks communicators for faults which no call reports.
#include "training/guards/communicator_watch.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "framework/core/error.h"

namespace packtrain {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kInterval{5};

TEST(CommunicatorWatch, DoesNotEndARunWithHealthyCommunicators) {
  std::atomic<int> num_polls = 0;
  const auto deadline = steady_clock::now() + std::chrono::seconds(60);
  {
    const CommunicatorWatch watch([&] { ++num_polls; }, 0, kInterval);
    while (num_polls < 3 && steady_clock::now() < deadline) std::this_thread::sleep_for(kInterval);
  }
  const int polls = num_polls;
  EXPECT_GE(polls, 3);
  std::this_thread::sleep_for(5 * kInterval);
  EXPECT_EQ(num_polls, polls) << "asked after its end";
}

TEST(CommunicatorWatch, EndsImmediatelyWithAnyInterval) {
  const auto begin = steady_clock::now();
  {
    const CommunicatorWatch watch([] {}, 0, std::chrono::hours(1));
  }
  EXPECT_LT(steady_clock::now() - begin, std::chrono::seconds(30));
}

TEST(CommunicatorWatchDeathTest, EndsTheProcessThatHangsWithTheFaultsOwnCode) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto hang = [] {
    int polls = 0;
    const CommunicatorWatch watch(
        [&] {
          if (++polls == 3) throw Error(ErrorCategory::kDevice, "a link is gone", "Look at it.");
        },
        3, kInterval);
    std::this_thread::sleep_for(std::chrono::minutes(5));
  };
  EXPECT_EXIT(hang(), testing::ExitedWithCode(69), "error: rank 3: a link is gone\n  Look at it.");
}

}  // namespace
}  // namespace packtrain
