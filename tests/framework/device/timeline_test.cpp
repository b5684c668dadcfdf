// Timelines of threads; those of a GPU are in cuda_timeline_test.cpp.
#include "framework/device/timeline.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "framework/device/device.h"
#include "framework/device/trace_range.h"
#include "tests/helpers/waiting_thread.h"

namespace packtrain {
namespace {

using test::WaitingThread;

void wait_ms(int milliseconds) {
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
}

const TimelineSpan* find(const std::vector<TimelineSpan>& spans, const std::string& name) {
  for (const TimelineSpan& span : spans) {
    if (span.name == name) return &span;
  }
  return nullptr;
}

std::vector<std::string> names(const std::vector<TimelineSpan>& spans, const std::string& row) {
  std::vector<std::string> found;
  for (const TimelineSpan& span : spans) {
    if (span.row == row) found.push_back(span.name);
  }
  return found;
}

using Names = std::vector<std::string>;

TEST(Timeline, HasTheRangesFromItsBeginToItsEndOuterOnesFirst) {
  {
    const TraceRange before("before");
  }
  TimelineRecording recording(nullptr, "compute");
  {
    const TraceRange outer("outer");
    const TraceRange inner("inner");
    wait_ms(1);
  }
  const auto spans = recording.finish();
  {
    const TraceRange after("after");
  }
  ASSERT_EQ(names(spans, "compute"), (Names{"outer", "inner"}));
  EXPECT_LE(spans[0].begin_ns, spans[1].begin_ns);
  EXPECT_LE(spans[1].end_ns, spans[0].end_ns);
  EXPECT_GE(spans[1].end_ns - spans[1].begin_ns, 1'000'000);
  EXPECT_EQ(spans[0].category, "range");
  EXPECT_TRUE(recording.finish().empty());
}

TEST(Timeline, LeavesOutRangesThatItDoesNotSeeWhole) {
  auto begun_before = std::make_optional<TraceRange>("begun before");
  TimelineRecording recording(nullptr, "compute");
  begun_before.reset();
  const TraceRange not_over("not over");
  {
    const TraceRange inside("inside");
  }
  EXPECT_EQ(names(recording.finish(), "compute"), Names{"inside"});
}

TEST(Timeline, LeavesOutRangesOfAnEarlierOne) {
  auto first = std::make_optional<TimelineRecording>(nullptr, "compute");
  auto straddling = std::make_optional<TraceRange>("straddling");
  first.reset();
  TimelineRecording second(nullptr, "compute");
  straddling.reset();
  EXPECT_TRUE(second.finish().empty());
}

class StreamTimeline : public ::testing::Test {
 protected:
  std::unique_ptr<Device> device_ = make_cpu_device({});
  std::unique_ptr<Stream> compute_ = device_->make_stream(StreamKind::kCompute);
  std::unique_ptr<Stream> gather_ = device_->make_stream(StreamKind::kGather);
  std::unique_ptr<Stream> reduce_ = device_->make_stream(StreamKind::kReduce);
  std::unique_ptr<Event> event_ = device_->make_event();
  TimelineRecording recording_{device_->record_activities(), "compute"};
};

TEST_F(StreamTimeline, NamesWorkOfAStreamAfterTheRangeItWasGivenIn) {
  WaitingThread host;
  {
    const TraceRange step("step 1");
    {
      const TraceRange range("gather layers.0");
      gather_->run([&](StreamHandle) {
        host.await();
        wait_ms(20);
      });
    }
    const TraceRange range("forward layers.0");
    compute_->run([](StreamHandle) { wait_ms(1); });
  }
  host.begins_to_wait();
  gather_->synchronize();
  const auto spans = recording_.finish();
  EXPECT_EQ(names(spans, "compute"), (Names{"step 1", "forward layers.0", "wait for gather"}));
  ASSERT_EQ(names(spans, "gather"), Names{"gather layers.0"});
  EXPECT_GE(find(spans, "gather layers.0")->end_ns - find(spans, "gather layers.0")->begin_ns,
            20'000'000);
}

TEST_F(StreamTimeline, ShowsWaitsByWhatIsAwaited) {
  WaitingThread compute;
  WaitingThread reduce;
  gather_->run([&](StreamHandle) {
    compute.await();  // after which reduce's wait has been given too
    reduce.await();
  });
  gather_->record(*event_);
  reduce_->run([&](StreamHandle) { reduce.begins_to_wait(); });
  reduce_->wait(*event_);
  compute.begins_to_wait();
  compute_->wait(*event_);
  reduce_->synchronize();
  const auto spans = recording_.finish();
  ASSERT_FALSE(names(spans, "compute").empty());
  EXPECT_EQ(names(spans, "compute")[0], "wait for gather");
  EXPECT_EQ(names(spans, "reduce"), Names{"wait for gather"});
  EXPECT_EQ(spans[0].category, "wait");
}

TEST_F(StreamTimeline, HasNoWaitForWhatIsDone) {
  gather_->record(*event_);
  std::atomic<bool> done = false;
  gather_->run([&](StreamHandle) { done = true; });
  while (!done) wait_ms(1);
  for (int i = 0; i < 50; ++i) compute_->wait(*event_);
  EXPECT_TRUE(recording_.finish().empty());
}

}  // namespace
}  // namespace packtrain
