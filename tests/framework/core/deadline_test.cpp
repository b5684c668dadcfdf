#include "framework/core/deadline.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace packtrain {
namespace {

using namespace std::chrono_literals;

TEST(Deadline, CallsItsFunctionOnceWhenTheLimitIsOver) {
  std::atomic<int> calls = 0;
  const Deadline deadline(1ms, [&] { ++calls; });
  while (calls == 0) std::this_thread::sleep_for(1ms);
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(calls, 1);
}

TEST(Deadline, CallsNothingWhenItEndsBeforeTheLimit) {
  std::atomic<int> calls = 0;
  {
    const Deadline deadline(1h, [&] { ++calls; });
  }
  EXPECT_EQ(calls, 0);
}

TEST(Deadline, WaitsForAFunctionThatHasBegun) {
  std::atomic<bool> begun = false;
  std::atomic<bool> done = false;
  {
    const Deadline deadline(1ms, [&] {
      begun = true;
      std::this_thread::sleep_for(50ms);
      done = true;
    });
    while (!begun) std::this_thread::sleep_for(1ms);
  }
  EXPECT_TRUE(done);
}

}  // namespace
}  // namespace packtrain
