#include "framework/core/read_ahead.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <stdexcept>

namespace packtrain {
namespace {

TEST(ReadAhead, GivesEveryItemInOrder) {
  for (const std::size_t depth : {1, 2, 7}) {
    ReadAhead<std::unique_ptr<std::int64_t>> items(
        3, 50, depth, [](std::int64_t index) { return std::make_unique<std::int64_t>(index); });
    for (std::int64_t expected = 3; expected < 50; ++expected) EXPECT_EQ(*items.take(), expected);
  }
}

TEST(ReadAhead, MakesItemsBeforeTheyAreTakenAndNoMoreThanItsDepth) {
  std::atomic<std::int64_t> made = 0;
  std::promise<void> third;
  ReadAhead<std::int64_t> items(0, 100, 2, [&](std::int64_t index) {
    made = index + 1;
    if (index == 2) third.set_value();
    return index;
  });
  EXPECT_EQ(items.take(), 0);
  EXPECT_EQ(third.get_future().wait_for(std::chrono::seconds(30)), std::future_status::ready);
  EXPECT_EQ(items.take(), 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_LE(made, 4);  // two were taken, two may wait
}

TEST(ReadAhead, AnExceptionSurfacesAfterTheItemsBeforeIt) {
  ReadAhead<std::int64_t> items(0, 5, 3, [](std::int64_t index) {
    if (index == 2) throw std::runtime_error("third");
    return index;
  });
  EXPECT_EQ(items.take(), 0);
  EXPECT_EQ(items.take(), 1);
  EXPECT_THROW(items.take(), std::runtime_error);
  EXPECT_THROW(items.take(), std::runtime_error);
}

TEST(ReadAhead, EndsWithItemsThatWereNotTaken) {
  ReadAhead<std::int64_t> none(0, 0, 1, [](std::int64_t index) { return index; });
  ReadAhead<std::int64_t> some(0, 1'000'000'000, 4, [](std::int64_t index) { return index; });
  EXPECT_EQ(some.take(), 0);
}

}  // namespace
}  // namespace packtrain
