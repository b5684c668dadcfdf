// Lays out made-up records of a GPU's profiler.
#include "framework/device/timeline_layout.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace packtrain {
namespace {

constexpr std::int64_t kUs = 1000;

RecordedRange range(std::uint64_t id, const std::string& name, std::uint64_t parent = 0) {
  return {id, parent, RangeKind::kWork, name, "host", 0, kUs, 0};
}

RecordedRange stream_record(std::uint64_t id, const std::string& stream) {
  return {id, 0, RangeKind::kStreamRecord, "record", stream, 0, kUs, 0};
}

RecordedRange stream_wait(std::uint64_t id, const std::string& stream, std::uint64_t awaited) {
  return {id, 0, RangeKind::kStreamWait, "wait", stream, 0, kUs, awaited};
}

DeviceActivity kernel(const std::string& row, const std::string& name, std::int64_t begin_us,
                      std::int64_t end_us, std::uint64_t order, std::uint64_t in_range = 0) {
  return {row, name, "kernel", begin_us * kUs, end_us * kUs, order, in_range, {}};
}

// "name begin end" of a row's boxes, in microseconds.
std::vector<std::string> boxes(const std::vector<TimelineSpan>& spans, const std::string& row) {
  std::vector<std::string> found;
  for (const TimelineSpan& span : spans) {
    if (span.row != row) continue;
    found.push_back(span.name + " " + std::to_string(span.begin_ns / kUs) + " " +
                    std::to_string(span.end_ns / kUs));
  }
  return found;
}

using Boxes = std::vector<std::string>;

TEST(TimelineLayout, PutsARangeAroundItsActivitiesOnEveryStream) {
  const std::vector<RecordedRange> ranges = {range(2, "norm", 1), range(3, "matmul", 1),
                                             range(1, "forward")};
  DeviceActivities device;
  device.activities = {kernel("compute", "k1", 10, 20, 1, 2), kernel("compute", "k2", 20, 40, 2, 3),
                       kernel("compute", "k3", 41, 50, 3, 3), kernel("gather", "k4", 5, 15, 4, 1),
                       kernel("compute", "k5", 60, 70, 5)};
  const auto spans = lay_out(ranges, device);
  EXPECT_EQ(boxes(spans, "compute"), (Boxes{"forward 10 50", "norm 10 20", "k1 10 20",
                                            "matmul 20 50", "k2 20 40", "k3 41 50", "k5 60 70"}));
  EXPECT_EQ(boxes(spans, "gather"), (Boxes{"forward 5 15", "k4 5 15"}));
  EXPECT_EQ(boxes(spans, "host"), (Boxes{"forward 0 1", "norm 0 1", "matmul 0 1"}));
}

TEST(TimelineLayout, NamesTheRangeOfEachKernel) {
  DeviceActivities device;
  device.activities = {kernel("compute", "k1", 10, 20, 1, 2)};
  const auto spans = lay_out(std::vector{range(2, "norm")}, device);
  ASSERT_EQ(spans.size(), 3U);
  EXPECT_EQ(spans[1].details, (TimelineDetails{{"range", "norm"}}));
}

TEST(TimelineLayout, CutsATinyKernelThatBeginsUnderTheTailOfTheOneBefore) {
  DeviceActivities device;
  device.activities = {kernel("compute", "a", 0, 100, 1), kernel("compute", "b", 97, 101, 2),
                       kernel("compute", "inside", 99, 101, 3)};
  const auto spans = lay_out({}, device);
  EXPECT_EQ(boxes(spans, "compute"), (Boxes{"a 0 100", "b 100 101"}));
  EXPECT_EQ(boxes(spans, "compute 2"), Boxes{"inside 99 101"});
}

TEST(TimelineLayout, CutsASmallOverlapAndGivesALargeOneItsOwnRow) {
  DeviceActivities device;
  device.activities = {kernel("gather", "a", 0, 100, 1), kernel("gather", "b", 98, 150, 2),
                       kernel("gather", "c", 110, 160, 3), kernel("gather", "d", 120, 170, 4),
                       kernel("gather", "e", 170, 180, 5)};
  const auto spans = lay_out({}, device);
  EXPECT_EQ(boxes(spans, "gather"), (Boxes{"a 0 100", "b 100 150", "e 170 180"}));
  EXPECT_EQ(boxes(spans, "gather 2"), Boxes{"c 110 160"});
  EXPECT_EQ(boxes(spans, "gather 3"), Boxes{"d 120 170"});
}

// Compute works until 20 us, waits for the gathers before the recorded event, and continues at 50.
DeviceActivities waiting(std::int64_t gather_end_us) {
  DeviceActivities device;
  device.activities = {
      kernel("compute", "before", 0, 20, 1), kernel("gather", "awaited", 5, gather_end_us, 2),
      kernel("gather", "later", gather_end_us + 1, 90, 4), kernel("compute", "after", 50, 60, 6)};
  device.order_of_range = {{1, 3}, {2, 5}};
  return device;
}

TEST(TimelineLayout, ShowsAWaitUntilWhatIsAwaitedIsDone) {
  const std::vector<RecordedRange> ranges = {stream_record(1, "gather"),
                                             stream_wait(2, "compute", 1)};
  EXPECT_EQ(boxes(lay_out(ranges, waiting(45)), "compute"),
            (Boxes{"before 0 20", "wait 20 45", "after 50 60"}));
  EXPECT_EQ(boxes(lay_out(ranges, waiting(52)), "compute"),
            (Boxes{"before 0 20", "wait 20 50", "after 50 60"}));
}

TEST(TimelineLayout, ShowsNoWaitForWhatWasDone) {
  const std::vector<RecordedRange> ranges = {stream_record(1, "gather"),
                                             stream_wait(2, "compute", 1)};
  EXPECT_EQ(boxes(lay_out(ranges, waiting(15)), "compute"), (Boxes{"before 0 20", "after 50 60"}));
  const std::vector<RecordedRange> never_recorded = {stream_wait(2, "compute", 0)};
  EXPECT_EQ(boxes(lay_out(never_recorded, waiting(45)), "compute"),
            (Boxes{"before 0 20", "after 50 60"}));
}

TEST(TimelineLayout, LaysTwoWaitsOneAfterTheOther) {
  DeviceActivities device = waiting(30);
  device.activities.push_back(kernel("reduce", "awaited too", 5, 40, 2));
  device.order_of_range = {{1, 3}, {2, 3}, {3, 5}, {4, 5}};
  const std::vector<RecordedRange> ranges = {stream_record(1, "gather"), stream_record(2, "reduce"),
                                             stream_wait(3, "compute", 1),
                                             stream_wait(4, "compute", 2)};
  EXPECT_EQ(boxes(lay_out(ranges, device), "compute"),
            (Boxes{"before 0 20", "wait 20 30", "wait 30 40", "after 50 60"}));
}

TEST(TimelineLayout, ShowsLongCallsInTheirRanges) {
  DeviceActivities device;
  device.long_calls = {{"cudaEventSynchronize", 100, 900, 1}, {"of no range", 0, 1, 0}};
  EXPECT_EQ(boxes(lay_out(std::vector{range(1, "step")}, device), "host"),
            (Boxes{"step 0 1", "cudaEventSynchronize 0 0"}));
}

}  // namespace
}  // namespace packtrain
