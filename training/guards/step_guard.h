// Skips steps whose loss or norm is not finite or far above previous steps. The configuration says
// how many skipped steps a run accepts and what it then does.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "framework/config/config.h"
#include "models/ops/gradient_norm/gradient_norm.h"
#include "training/steps/step_outcome.h"

namespace packtrain {

// The latest values of loss or norm. It leaves out non-finite values and those of skipped steps, so
// that an outlier does not raise the bound of later steps.
class SpikeWindow {
 public:
  // A spike is above median + threshold * 1.4826 * (median of the distances from the median). This
  // estimates the deviation of a normal distribution by values that outliers do not change (Hampel,
  // 1974). Distances count as at least 1 % of the median. There is no bound before half of `size`
  // steps are known.
  SpikeWindow(std::int64_t size, double threshold) : size_(size), threshold_(threshold) {}

  void add(std::int64_t step, double value);
  // Bound from steps before `before`; infinity when there is none.
  double bound(std::int64_t before) const;

  struct Entry {
    std::int64_t step = 0;
    double value = 0;
  };
  const std::deque<Entry>& entries() const { return entries_; }

 private:
  std::int64_t size_;
  double threshold_;
  std::deque<Entry> entries_;
};

class StepGuard {
 public:
  // `left_out`: steps (numbers from 1) whose update is never applied. `state`: the saved state(),
  // or empty.
  StepGuard(const GuardSection& options, std::set<std::int64_t> left_out, const std::string& state);

  // Bounds of step `number`, the same on every rank and after a resume. They use outcomes that are
  // at least two steps old, because on a GPU the latest one is still in flight.
  RefusalBounds bounds(std::int64_t number) const;

  enum class Verdict { kApplied, kSkipped, kRewind };
  // Call it for each step in order. Throws Error(kNonFinite) when the run must stop.
  Verdict judge(std::int64_t number, const StepOutcome::Values& values);
  // The first step that was judged kRewind.
  std::optional<std::int64_t> rewind_step() const { return rewind_step_; }

  std::string state() const;  // JSON

 private:
  [[noreturn]] void stop(std::int64_t number, const std::string& what) const;
  Verdict discard(std::int64_t number, const StepOutcome::Values& values);

  GuardSection options_;
  std::set<std::int64_t> left_out_;
  SpikeWindow losses_;
  SpikeWindow norms_;
  std::int64_t num_consecutive_skipped_ = 0;
  std::optional<std::int64_t> rewind_step_;
};

}  // namespace packtrain
