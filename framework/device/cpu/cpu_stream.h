// Streams and events of the CPU. Threads with queues keep exactly the order that events guarantee,
// and no other.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "framework/core/random.h"
#include "framework/device/timed_event.h"

namespace packtrain {

// The first exception on any stream of a device. From then on no stream starts further work,
// because its input can be missing. Every call of the host on any of them rethrows the exception.
class CpuFailure {
 public:
  void set(std::exception_ptr failure);
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  void rethrow_if_failed() const;

 private:
  std::atomic<bool> failed_ = false;
  mutable std::mutex mutex_;
  std::exception_ptr failure_;
};

// One record() of an event. A waiting stream keeps the record that it saw, so that a later record()
// of the event does not delay it.
class CpuRecord {
 public:
  explicit CpuRecord(StreamKind recorded_by) : recorded_by_(recorded_by) {}
  StreamKind recorded_by() const { return recorded_by_; }
  void complete();
  void wait();
  std::chrono::steady_clock::time_point completed_at();  // waits for it

 private:
  StreamKind recorded_by_;
  std::chrono::steady_clock::time_point completed_at_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
};

struct CpuEvent final : TimedEvent {
  void synchronize() override {
    if (latest) latest->wait();
  }
  double seconds_since(TimedEvent& earlier) override;

  std::shared_ptr<CpuRecord> latest;  // null before the first record()
};

// Sleeps for a different random time at each call, to reveal missing waits.
class RandomDelay {
 public:
  RandomDelay(const DeviceOptions& options, std::uint64_t stream_index);
  void operator()();

 private:
  CounterRandom random_;
  std::uint64_t bound_us_;
  std::uint64_t counter_ = 0;
};

// The compute stream is the calling thread.
class CpuComputeStream final : public Stream {
 public:
  CpuComputeStream(std::shared_ptr<CpuFailure> failure, RandomDelay delay);
  void run(std::function<void(StreamHandle)> work) override;
  void record(Event& event) override;
  void wait(const Event& event) override;
  void synchronize() override;
  WaitedTime take_waited() override;

 private:
  std::shared_ptr<CpuFailure> failure_;
  RandomDelay delay_;
  WaitedTime waited_;
};

// All other streams are threads that execute work from a queue in order.
class CpuThreadStream final : public Stream {
 public:
  CpuThreadStream(StreamKind kind, std::shared_ptr<CpuFailure> failure, RandomDelay delay);
  // Completes the queued work. During stack unwinding, work that has not started is dropped.
  ~CpuThreadStream() override;
  void run(std::function<void(StreamHandle)> work) override;
  void record(Event& event) override;
  void wait(const Event& event) override;
  void synchronize() override;

 private:
  void push(std::function<void()> task);
  void drain_queue();

  StreamKind kind_;
  std::shared_ptr<CpuFailure> failure_;
  RandomDelay delay_;  // used only by the thread
  int exceptions_at_start_;
  std::atomic<bool> dropping_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  bool closed_ = false;
  std::thread thread_;  // last, because it starts when all other members exist
};

}  // namespace packtrain
