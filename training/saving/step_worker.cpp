#include "training/saving/step_worker.h"

#include <utility>

namespace packtrain {

StepWorker::StepWorker(Work work, bool newest_only)
    : work_(std::move(work)),
      newest_only_(newest_only),
      thread_([this](const std::stop_token& stops) { run(stops); }) {}

StepWorker::~StepWorker() {
  stop();
}

std::optional<std::int64_t> StepWorker::add(std::int64_t step) {
  std::optional<std::int64_t> replaced;
  {
    const std::lock_guard lock(mutex_);
    if (newest_only_ && !waiting_.empty()) {
      replaced = waiting_.back();
      waiting_.pop_back();
    }
    waiting_.push_back(step);
  }
  changed_.notify_all();
  return replaced;
}

std::vector<std::int64_t> StepWorker::steps() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::int64_t> steps(waiting_.begin(), waiting_.end());
  if (in_work_) steps.insert(steps.begin(), *in_work_);
  return steps;
}

bool StepWorker::wait(std::chrono::duration<double> limit) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, limit, [this] { return waiting_.empty() && !in_work_; });
}

void StepWorker::request_stop() {
  {
    const std::lock_guard lock(mutex_);
    waiting_.clear();
  }
  thread_.request_stop();
}

void StepWorker::stop() {
  request_stop();
  if (thread_.joinable()) thread_.join();
}

void StepWorker::run(const std::stop_token& stops) {
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, stops, [this] { return !waiting_.empty(); })) {
    if (stops.stop_requested()) return;
    in_work_ = waiting_.front();
    waiting_.pop_front();
    lock.unlock();
    work_(*in_work_, stops);
    lock.lock();
    in_work_.reset();
    changed_.notify_all();
  }
}

}  // namespace packtrain
