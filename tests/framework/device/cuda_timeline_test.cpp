// Timelines of a GPU; needs one.
#include <ATen/ops/full.h>
#include <cupti.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "framework/core/error.h"
#include "framework/device/device.h"
#include "framework/device/timeline.h"
#include "framework/device/trace_range.h"

namespace packtrain {
namespace {

class CudaTimeline : public testing::Test {
 protected:
  std::unique_ptr<Device> device_ = make_cuda_device(0, {});
  std::unique_ptr<Stream> compute_ = device_->make_stream(StreamKind::kCompute);
  std::unique_ptr<Stream> gather_ = device_->make_stream(StreamKind::kGather);
  std::unique_ptr<Event> event_ = device_->make_event();
  at::TensorOptions options_ = at::TensorOptions(at::kFloat).device(at::kCUDA, 0);
  at::Tensor x_ = at::full({1 << 26}, 1.0, options_);

  void fill(Stream& stream, const std::string& name, int times) {
    const TraceRange range(name);
    stream.run([&](StreamHandle) {
      for (int i = 0; i < times; ++i) x_.fill_(2.0);
    });
  }
};

const TimelineSpan* find(const std::vector<TimelineSpan>& spans, const std::string& row,
                         const std::string& name) {
  const auto found = std::ranges::find_if(
      spans, [&](const TimelineSpan& s) { return s.row == row && s.name == name; });
  return found == spans.end() ? nullptr : &*found;
}

std::int64_t count(const std::vector<TimelineSpan>& spans, const std::string& row,
                   const std::string& category) {
  return std::ranges::count_if(
      spans, [&](const TimelineSpan& s) { return s.row == row && s.category == category; });
}

TEST_F(CudaTimeline, HasKernelsOnTheRowsOfTheirStreamsInTheRangesThatLaunchedThem) {
  fill(*compute_, "untraced", 3);
  TimelineRecording recording(device_->record_activities(), "host");
  fill(*compute_, "forward", 4);
  fill(*gather_, "gather", 2);
  const auto spans = recording.finish();
  EXPECT_EQ(count(spans, "compute", "kernel"), 4);
  EXPECT_EQ(count(spans, "gather", "kernel"), 2);
  EXPECT_EQ(count(spans, "compute", "range"), 1);
  const TimelineSpan* forward = find(spans, "compute", "forward");
  const TimelineSpan* on_host = find(spans, "host", "forward");
  ASSERT_NE(forward, nullptr);
  ASSERT_NE(on_host, nullptr);
  EXPECT_GT(forward->end_ns - forward->begin_ns, 100'000);  // 4 x 256 MB written
  EXPECT_GE(forward->begin_ns, on_host->begin_ns - 1'000'000) << "one clock for host and GPU";
  EXPECT_LE(forward->begin_ns, on_host->end_ns + 100'000'000);
}

TEST_F(CudaTimeline, ShowsHowLongAStreamStoodStill) {
  fill(*compute_, "warm-up", 1);
  TimelineRecording recording(device_->record_activities(), "host");
  // This takes longer than the host needs to enqueue the wait. The timeline counts from the end of
  // this work, the stream's own clock from where the wait was enqueued.
  fill(*compute_, "before", 20);
  const std::unique_ptr<Event> computed = device_->make_event();
  compute_->record(*computed);
  gather_->wait(*computed);
  fill(*gather_, "gather", 20);
  gather_->record(*event_);
  compute_->wait(*event_);
  fill(*compute_, "after", 1);
  const auto spans = recording.finish();
  const WaitedTime waited = compute_->take_waited();
  const TimelineSpan* wait = find(spans, "compute", "wait for gather");
  ASSERT_NE(wait, nullptr);
  EXPECT_GT(waited.gather_s, 1e-4);
  EXPECT_EQ(waited.reduce_s, 0);
  EXPECT_NEAR(1e-9 * static_cast<double>(wait->end_ns - wait->begin_ns), waited.gather_s,
              0.1 * waited.gather_s + 2e-5);
}

TEST_F(CudaTimeline, NothingIsRecordedAfterItsEnd) {
  for (int round = 0; round < 3; ++round) {
    TimelineRecording recording(device_->record_activities(), "host");
    fill(*compute_, "forward", 2);
    EXPECT_EQ(count(recording.finish(), "compute", "kernel"), 2);
    fill(*compute_, "between", 2);
  }
}

void ignore(void* /*user*/, CUpti_CallbackDomain /*domain*/, CUpti_CallbackId /*id*/,
            const void* /*data*/) {}

TEST_F(CudaTimeline, SaysThatAnotherProfilerIsAtWork) {
  CUpti_SubscriberHandle other = nullptr;
  ASSERT_EQ(cuptiSubscribe(&other, ignore, nullptr), CUPTI_SUCCESS);
  EXPECT_THROW(device_->record_activities(), Error);
  ASSERT_EQ(cuptiUnsubscribe(other), CUPTI_SUCCESS);
  EXPECT_NE(device_->record_activities(), nullptr);
}

}  // namespace
}  // namespace packtrain
