// Tests work on files that may hang: no thread waits for it longer than a moment.
#include "training/guards/file_thread.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>

namespace packtrain {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

struct Counts {
  std::atomic<int> works = 0;
  std::atomic<int> lasts = 0;
  std::atomic<bool> hangs = false;
};

std::unique_ptr<FileThread> count(const std::shared_ptr<Counts>& counts) {
  return std::make_unique<FileThread>(
      [counts] {
        ++counts->works;
        while (counts->hangs) std::this_thread::sleep_for(milliseconds(5));
      },
      [counts] { ++counts->lasts; }, std::chrono::hours(1));
}

TEST(FileThread, DoesTheWorkOnceMoreWhenAskedAndTheLastAtTheEnd) {
  const auto counts = std::make_shared<Counts>();
  {
    const auto thread = count(counts);
    EXPECT_TRUE(thread->ask(seconds(60)));
    EXPECT_TRUE(thread->ask(seconds(60)));
    EXPECT_GE(counts->works, 2);
    EXPECT_EQ(counts->lasts, 0);
  }
  EXPECT_EQ(counts->lasts, 1);
}

TEST(FileThread, IsAbandonedWhereItsWorkHangs) {
  const auto counts = std::make_shared<Counts>();
  counts->hangs = true;
  const auto begin = steady_clock::now();
  {
    const auto thread = count(counts);
    EXPECT_FALSE(thread->ask(milliseconds(100)));
  }
  EXPECT_LT(steady_clock::now() - begin, seconds(30));
  counts->hangs = false;  // it ends by itself
  while (counts->lasts == 0) std::this_thread::sleep_for(milliseconds(5));
}

}  // namespace
}  // namespace packtrain
