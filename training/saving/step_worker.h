// A thread that does something for committed checkpoints, one step at a time.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <vector>

namespace packtrain {

class StepWorker {
 public:
  // `work` is called on the thread, and must return soon when a stop is requested. With
  // `newest_only` a step that waits is replaced by a newer one.
  using Work = std::function<void(std::int64_t step, const std::stop_token& stops)>;
  StepWorker(Work work, bool newest_only);
  ~StepWorker();  // as stop()
  StepWorker(const StepWorker&) = delete;
  StepWorker& operator=(const StepWorker&) = delete;

  // Returns the step that it replaced.
  std::optional<std::int64_t> add(std::int64_t step);
  std::vector<std::int64_t> steps() const;  // in work or waiting
  // Waits until nothing is left. False when that takes longer than `limit`.
  bool wait(std::chrono::duration<double> limit);
  // Forgets the steps that wait, and asks the work to stop.
  void request_stop();
  void stop();  // the same, and waits for its end

 private:
  void run(const std::stop_token& stops);

  Work work_;
  bool newest_only_;
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<std::int64_t> waiting_;
  std::optional<std::int64_t> in_work_;
  std::jthread thread_;  // last: uses all of the above
};

}  // namespace packtrain
