#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "framework/device/device.h"
#include "tests/helpers/waiting_thread.h"

namespace packtrain {
namespace {

using test::WaitingThread;

void sleep_ms(int milliseconds) {
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
}

class CpuStreams : public ::testing::Test {
 protected:
  std::unique_ptr<Device> device_ = make_cpu_device({});
  std::unique_ptr<Stream> compute_ = device_->make_stream(StreamKind::kCompute);
  std::unique_ptr<Stream> gather_ = device_->make_stream(StreamKind::kGather);
  std::unique_ptr<Stream> reduce_ = device_->make_stream(StreamKind::kReduce);
  std::unique_ptr<Event> event_ = device_->make_event();
};

TEST_F(CpuStreams, ComputeRunsImmediatelyOnTheCallingThread) {
  std::thread::id thread;
  compute_->run([&](StreamHandle handle) {
    EXPECT_EQ(handle, nullptr);
    thread = std::this_thread::get_id();
  });
  EXPECT_EQ(thread, std::this_thread::get_id());
}

TEST_F(CpuStreams, OtherStreamsRunInOrderConcurrentlyWithTheCaller) {
  std::vector<int> order;
  std::thread::id thread;
  std::atomic<bool> released = false;
  gather_->run([&](StreamHandle) {
    while (!released) sleep_ms(1);
    thread = std::this_thread::get_id();
  });
  for (int i = 0; i < 100; ++i) gather_->run([&order, i](StreamHandle) { order.push_back(i); });
  released = true;  // reached while the stream is at work
  gather_->synchronize();
  EXPECT_NE(thread, std::this_thread::get_id());
  ASSERT_EQ(order.size(), 100U);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
}

TEST_F(CpuStreams, ComputeWaitsForTheEventOfAStream) {
  int value = 0;
  gather_->run([&](StreamHandle) {
    sleep_ms(20);
    value = 1;
  });
  gather_->record(*event_);
  compute_->wait(*event_);
  EXPECT_EQ(value, 1);
}

TEST_F(CpuStreams, WaitsOfComputeAreMeasuredByTheStreamAwaited) {
  const auto wait_long_for = [&](Stream& stream) {
    WaitingThread compute;
    stream.run([&](StreamHandle) {
      compute.await();
      sleep_ms(20);
    });
    stream.record(*event_);
    compute.begins_to_wait();
    compute_->wait(*event_);
  };
  wait_long_for(*gather_);
  WaitedTime waited = compute_->take_waited();
  EXPECT_GE(waited.gather_s, 0.01);
  EXPECT_EQ(waited.reduce_s, 0);
  EXPECT_EQ(waited.total_s(), waited.gather_s);
  wait_long_for(*reduce_);
  wait_long_for(*device_->make_stream(StreamKind::kCopy));
  waited = compute_->take_waited();
  EXPECT_EQ(waited.gather_s, 0);
  EXPECT_GE(waited.reduce_s, 0.01);
  EXPECT_GE(waited.other_s, 0.01);
  EXPECT_EQ(compute_->take_waited().total_s(), 0);
}

TEST_F(CpuStreams, StreamsWaitForEachOther) {
  int value = 0;
  int seen = -1;
  gather_->run([&](StreamHandle) {
    sleep_ms(20);
    value = 1;
  });
  gather_->record(*event_);
  reduce_->wait(*event_);
  reduce_->run([&](StreamHandle) { seen = value; });
  reduce_->synchronize();
  EXPECT_EQ(seen, 1);
}

TEST_F(CpuStreams, AnEventNeverRecordedBlocksNoStream) {
  compute_->wait(*event_);
  gather_->wait(*event_);
  gather_->synchronize();
}

TEST_F(CpuStreams, AWaitIsForTheRecordBeforeItNotForALaterOne) {
  std::atomic<bool> released = false;
  gather_->record(*event_);
  gather_->synchronize();
  reduce_->wait(*event_);  // satisfied
  gather_->run([&](StreamHandle) {
    while (!released) sleep_ms(1);
  });
  gather_->record(*event_);
  reduce_->synchronize();  // would hang if it waited for the second record
  released = true;
  gather_->synchronize();
}

TEST_F(CpuStreams, AWaitIsForTheLatestRecordBeforeIt) {
  int value = 0;
  gather_->record(*event_);
  gather_->run([&](StreamHandle) {
    sleep_ms(20);
    value = 1;
  });
  gather_->record(*event_);
  compute_->wait(*event_);
  EXPECT_EQ(value, 1);
}

TEST_F(CpuStreams, AnEventOfComputeIsCompleteWhenRecorded) {
  compute_->record(*event_);
  gather_->wait(*event_);
  gather_->synchronize();
}

TEST_F(CpuStreams, AnEventMayGoBeforeItsRecordCompletes) {
  int value = 0;
  auto brief = device_->make_event();
  gather_->run([&](StreamHandle) {
    sleep_ms(10);
    value = 1;
  });
  gather_->record(*brief);
  reduce_->wait(*brief);
  brief.reset();
  reduce_->synchronize();
  EXPECT_EQ(value, 1);
}

TEST_F(CpuStreams, DestroyingAStreamFinishesItsWork) {
  int count = 0;
  for (int i = 0; i < 10; ++i) {
    gather_->run([&](StreamHandle) {
      sleep_ms(1);
      ++count;
    });
  }
  gather_.reset();
  EXPECT_EQ(count, 10);
}

TEST_F(CpuStreams, UnwindingDropsWorkThatHasNotStarted) {
  std::atomic<int> count = 0;
  WaitingThread host;
  try {
    const auto stream = device_->make_stream(StreamKind::kGather);
    stream->run([&](StreamHandle) { host.await(); });
    for (int i = 0; i < 10; ++i) stream->run([&](StreamHandle) { ++count; });
    host.begins_to_wait();  // for the stream, on its way out
    throw std::runtime_error("host failed");
  } catch (const std::runtime_error&) {
  }
  EXPECT_EQ(count, 0);
}

class FailedStream : public CpuStreams {
 protected:
  void SetUp() override {
    std::atomic<bool> all_given = false;
    gather_->run([&](StreamHandle) {
      while (!all_given) sleep_ms(1);
      throw std::runtime_error("gather failed");
    });
    gather_->run([this](StreamHandle) { later_work_ran_ = true; });
    gather_->record(*event_);
    all_given = true;
    while (message_of([&] { compute_->run([](StreamHandle) {}); }) != "gather failed") sleep_ms(1);
  }

  template <typename Call>
  static std::string message_of(Call call) {
    try {
      call();
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "nothing was thrown";
  }

  bool later_work_ran_ = false;
};

TEST_F(FailedStream, SurfacesWhereComputeWaitsForIt) {
  EXPECT_EQ(message_of([&] { compute_->wait(*event_); }), "gather failed");
  EXPECT_FALSE(later_work_ran_);
}

TEST_F(FailedStream, SurfacesAtSynchronize) {
  EXPECT_EQ(message_of([&] { gather_->synchronize(); }), "gather failed");
  EXPECT_FALSE(later_work_ran_);
}

TEST_F(FailedStream, SurfacesAtEveryLaterCallOnAnyStreamOfTheDevice) {
  EXPECT_EQ(message_of([&] { gather_->synchronize(); }), "gather failed");
  EXPECT_EQ(message_of([&] { gather_->run([](StreamHandle) {}); }), "gather failed");
  EXPECT_EQ(message_of([&] { reduce_->run([](StreamHandle) {}); }), "gather failed");
  EXPECT_EQ(message_of([&] { compute_->run([](StreamHandle) {}); }), "gather failed");
  EXPECT_EQ(message_of([&] { reduce_->wait(*event_); }), "gather failed");
  EXPECT_EQ(message_of([&] { compute_->synchronize(); }), "gather failed");
}

TEST_F(FailedStream, BlocksNoThreadThatWaitsForItsEvents) {
  EXPECT_EQ(message_of([&] {
              reduce_->wait(*event_);
              reduce_->synchronize();
            }),
            "gather failed");
}

TEST_F(FailedStream, ExceptionsOfComputeAreThrownWhereTheyArise) {
  const auto other = make_cpu_device({})->make_stream(StreamKind::kCompute);
  EXPECT_EQ(message_of([&] { other->run([](StreamHandle) { throw std::runtime_error("here"); }); }),
            "here");
  other->run([](StreamHandle) {});  // and are not remembered
}

}  // namespace
}  // namespace packtrain
