#include "framework/device/cpu/cpu_stream.h"

#include <chrono>
#include <utility>

#include "framework/device/range_recorder.h"

namespace packtrain {

void CpuFailure::set(std::exception_ptr failure) {
  const std::lock_guard lock(mutex_);
  if (failure_) return;
  failure_ = std::move(failure);
  failed_.store(true, std::memory_order_release);
}

void CpuFailure::rethrow_if_failed() const {
  if (!failed()) return;
  const std::lock_guard lock(mutex_);
  std::rethrow_exception(failure_);
}

void CpuRecord::complete() {
  const std::lock_guard lock(mutex_);
  done_ = true;
  completed_at_ = std::chrono::steady_clock::now();
  changed_.notify_all();
}

std::chrono::steady_clock::time_point CpuRecord::completed_at() {
  wait();
  const std::lock_guard lock(mutex_);
  return completed_at_;
}

double CpuEvent::seconds_since(TimedEvent& earlier) {
  const auto begin = static_cast<CpuEvent&>(earlier).latest->completed_at();
  return std::chrono::duration<double>(latest->completed_at() - begin).count();
}

std::unique_ptr<TimedEvent> make_cpu_timed_event() {
  return std::make_unique<CpuEvent>();
}

void CpuRecord::wait() {
  std::unique_lock lock(mutex_);
  if (done_) return;
  const RangeScope range(wait_name(recorded_by_), {RangeKind::kThreadWait});
  changed_.wait(lock, [this] { return done_; });
}

RandomDelay::RandomDelay(const DeviceOptions& options, std::uint64_t stream_index)
    : random_(options.delay_seed, "stream delay", stream_index),
      bound_us_(static_cast<std::uint64_t>(options.stream_delay_us)) {}

void RandomDelay::operator()() {
  if (bound_us_ == 0) return;
  std::this_thread::sleep_for(std::chrono::microseconds(random_.below(counter_++, bound_us_ + 1)));
}

CpuComputeStream::CpuComputeStream(std::shared_ptr<CpuFailure> failure, RandomDelay delay)
    : failure_(std::move(failure)), delay_(delay) {}

void CpuComputeStream::run(std::function<void(StreamHandle)> work) {
  failure_->rethrow_if_failed();
  delay_();
  work(nullptr);
}

void CpuComputeStream::record(Event& event) {
  auto record = std::make_shared<CpuRecord>(StreamKind::kCompute);
  record->complete();
  static_cast<CpuEvent&>(event).latest = std::move(record);
}

void CpuComputeStream::wait(const Event& event) {
  const auto record = static_cast<const CpuEvent&>(event).latest;
  if (record) {
    const auto begin = std::chrono::steady_clock::now();
    record->wait();
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begin;
    waited_.add(record->recorded_by(), waited.count());
  }
  failure_->rethrow_if_failed();
}

WaitedTime CpuComputeStream::take_waited() {
  return std::exchange(waited_, {});
}

void CpuComputeStream::synchronize() {
  failure_->rethrow_if_failed();
}

CpuThreadStream::CpuThreadStream(StreamKind kind, std::shared_ptr<CpuFailure> failure,
                                 RandomDelay delay)
    : kind_(kind),
      failure_(std::move(failure)),
      delay_(delay),
      exceptions_at_start_(std::uncaught_exceptions()),
      thread_([this] { drain_queue(); }) {}

CpuThreadStream::~CpuThreadStream() {
  if (std::uncaught_exceptions() > exceptions_at_start_) dropping_ = true;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void CpuThreadStream::run(std::function<void(StreamHandle)> work) {
  failure_->rethrow_if_failed();
  push([this, work = std::move(work), range_name = hand_over_range()] {
    delay_();
    if (dropping_ || failure_->failed()) return;
    const RangeScope range(range_name);
    try {
      work(nullptr);
    } catch (...) {
      failure_->set(std::current_exception());
    }
  });
}

void CpuThreadStream::record(Event& event) {
  auto record = std::make_shared<CpuRecord>(kind_);
  static_cast<CpuEvent&>(event).latest = record;
  push([record = std::move(record)] { record->complete(); });
}

void CpuThreadStream::wait(const Event& event) {
  failure_->rethrow_if_failed();
  auto record = static_cast<const CpuEvent&>(event).latest;
  if (record) push([record = std::move(record)] { record->wait(); });
}

void CpuThreadStream::synchronize() {
  const auto end = std::make_shared<CpuRecord>(kind_);
  push([end] { end->complete(); });
  end->wait();
  failure_->rethrow_if_failed();
}

void CpuThreadStream::push(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(task));
  }
  changed_.notify_one();
}

void CpuThreadStream::drain_queue() {
  set_thread_row(stream_name(kind_));
  for (;;) {
    std::function<void()> task;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return closed_ || !queue_.empty(); });
      if (queue_.empty()) return;
      task = std::move(queue_.front());
      queue_.pop_front();
    }
    task();
  }
}

}  // namespace packtrain
