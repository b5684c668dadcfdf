// A process that gives up ends, also where giving up hangs.
#include "training/guards/exit_deadline.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace packtrain {
namespace {

using std::chrono::milliseconds;

TEST(ExitDeadlineDeathTest, EndsTheProcessWithTheTextAndTheCode) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        ExitDeadline deadline(milliseconds(50));
        deadline.arm("rank 3: a link is down", 69);
        std::this_thread::sleep_for(std::chrono::seconds(30));
      },
      testing::ExitedWithCode(69), "error: rank 3: a link is down");
}

TEST(ExitDeadline, DoesNotEndAProcessThatFinishesInTime) {
  {
    ExitDeadline deadline(std::chrono::minutes(10));  // the test does not wait for it
    deadline.arm("late", 69);
  }
  {
    const ExitDeadline unarmed(milliseconds(1));
  }
  std::this_thread::sleep_for(milliseconds(200));
  SUCCEED();
}

}  // namespace
}  // namespace packtrain
