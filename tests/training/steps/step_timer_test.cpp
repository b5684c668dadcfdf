#include "training/steps/step_timer.h"
#include "framework/core/clock.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <thread>

namespace packtrain {
namespace {

using Clock = std::chrono::steady_clock;

class StepTimerTest : public ::testing::Test {
 protected:
  std::unique_ptr<Device> device_ = make_cpu_device({});
  std::unique_ptr<Stream> stream_ = device_->make_stream(StreamKind::kReduce);  // a thread

  void work(int milliseconds) {
    stream_->run([=](StreamHandle) {
      std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
    });
  }
};

TEST_F(StepTimerTest, TimesEachStepWhereverTheHostIs) {
  StepTimer clock(*device_, *stream_);
  const auto begin = Clock::now();
  clock.restart();
  work(20);
  clock.end_step();
  work(200);
  clock.end_step();  // the host gets here immediately
  stream_->synchronize();
  const double elapsed = seconds_since(begin);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // and reads late
  const double first = clock.take_step().total_s;
  const double second = clock.take_step().total_s;
  EXPECT_GE(first, 0.020);
  EXPECT_GE(second, 0.200);
  EXPECT_LE(first + second, elapsed + 1e-6) << "neither has a part of the other, nor the reading";
}

TEST_F(StepTimerTest, CountsWhatTheDeviceWaitedForTheHostButNothingBeforeARestart) {
  StepTimer clock(*device_, *stream_);
  clock.restart();
  stream_->synchronize();  // its thread has noted the begin
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  clock.end_step();
  EXPECT_GE(clock.take_step().total_s, 0.050);
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  stream_->synchronize();
  const auto begin = Clock::now();
  clock.restart();
  clock.end_step();
  const double second = clock.take_step().total_s;
  EXPECT_LE(second, seconds_since(begin) + 1e-6);
}

TEST_F(StepTimerTest, ReportsTheTimeOfEachPhase) {
  StepTimer clock(*device_, *stream_);
  clock.restart();
  for (int micro_batch = 0; micro_batch < 2; ++micro_batch) {
    clock.enter(StepPhase::kForward);
    work(20);
    clock.enter(StepPhase::kForward);  // another block
    work(20);
    clock.enter(StepPhase::kBackward);
    work(60);
  }
  clock.enter(StepPhase::kOptimizer);
  work(10);
  clock.end_step();
  work(300);  // the next step's, before it enters a phase
  clock.end_step();
  const StepTimes first = clock.take_step();
  EXPECT_GE(first.forward_s, 0.080);
  EXPECT_GE(first.backward_s, 0.120);
  EXPECT_GE(first.optimizer_s, 0.010);
  EXPECT_LE(first.forward_s + first.backward_s + first.optimizer_s, first.total_s + 1e-9);
  const StepTimes second = clock.take_step();
  EXPECT_GE(second.total_s, 0.300);
  EXPECT_EQ(second.forward_s + second.backward_s + second.optimizer_s, 0);
}

TEST_F(StepTimerTest, ForgetsWhatWasEnteredBeforeARestart) {
  StepTimer clock(*device_, *stream_);
  clock.enter(StepPhase::kForward);
  clock.enter(StepPhase::kBackward);
  clock.restart();
  clock.enter(StepPhase::kOptimizer);
  clock.end_step();
  const StepTimes times = clock.take_step();
  EXPECT_EQ(times.forward_s, 0);
  EXPECT_EQ(times.backward_s, 0);
}

}  // namespace
}  // namespace packtrain
