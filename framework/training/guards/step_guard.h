// Watches the numbers of a run: steps that are not finite, or far above those before them, are not
// applied; how many of these a run bears, and what it does about them, is the configuration's.
#pragma once

#include <cstdint>
#include <deque>
#include <set>
#include <string>
#include <vector>

#include "framework/config/config.h"
#include "framework/training/steps/optimizer.h"
#include "models/ops/gradient_norm/gradient_norm.h"

namespace packtrain {

// The latest steps' values of a number that is watched. What is not finite, or was refused, is not
// in it, so that one outlier does not widen the bound for the next.
class SpikeWindow {
 public:
  // A spike is above median + threshold * 1.4826 * (median of the distances from the median):
  // deviations as of a normal distribution, by numbers that outliers do not move (Hampel, 1974).
  // Distances count as at least 1 % of the median. No bound before half of `size` steps are known.
  SpikeWindow(std::int64_t size, double threshold) : size_(size), threshold_(threshold) {}

  void add(std::int64_t step, double value);
  // From steps before `before`; infinity for none.
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
  // `left_out`: steps (numbers from 1) whose update is not applied whatever it is. `state`: what
  // state() gave when the run was saved, or empty.
  StepGuard(const GuardSection& options, std::set<std::int64_t> left_out, const std::string& state);

  // Of step `number`, the same on every rank and after a resume: from outcomes at least two steps
  // old, because on a GPU the latest one is still under way.
  RefusalBounds bounds(std::int64_t number) const;

  enum class Verdict { kApplied, kSkipped, kRewind };
  // Of each step in turn. Throws Error(kNonFinite) where the run is to stop.
  Verdict judge(std::int64_t number, const StepOutcome::Values& values);

  std::string state() const;  // JSON

 private:
  [[noreturn]] void stop(std::int64_t number, const std::string& what) const;
  Verdict refuse(std::int64_t number, const StepOutcome::Values& values);

  GuardSection options_;
  std::set<std::int64_t> left_out_;
  SpikeWindow losses_;
  SpikeWindow norms_;
  std::int64_t num_consecutive_skipped_ = 0;
};

}  // namespace packtrain
