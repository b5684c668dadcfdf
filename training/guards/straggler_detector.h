// Compares the ranks' own times and finds the slowest rank.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "framework/device/device.h"
#include "framework/metrics/metrics.h"
#include "parallel/communicators/communicator.h"

namespace packtrain {

// Parts of a rank's step that are not waits for other ranks.
enum class OwnTime { kData, kCompute };
inline constexpr int kNumOwnTimes = 2;

const char* name_of(OwnTime phase);

struct Straggler {
  int rank = 0;
  OwnTime phase = OwnTime::kCompute;
  double ratio = 1;             // of its time to the ranks' median
  double seconds_per_step = 0;  // above the median
};

// Finds the phase and rank whose time exceeds the ranks' median the most. `seconds` [ranks,
// kNumOwnTimes]: sums over `num_steps` steps. The excess of that phase is added to the median of
// the ranks' whole own times; the ratio is that sum to the median. A phase of microseconds is
// therefore no straggler.
Straggler find_straggler(std::span<const double> seconds, int num_ranks, std::int64_t num_steps);

class StragglerDetector {
 public:
  // `ratio`: guard.straggler_ratio; 0: never compares. Rank 0 warns of a rank above it in two
  // comparisons in a row. It warns again only after another rank, or none, was above it.
  StragglerDetector(double ratio, Communicator& control) : ratio_(ratio), control_(control) {}

  // Adds this rank's times of a step and writes the latest result into its record. Collective when
  // the step's number is a multiple of kSteps. Ignores a process's first step, in which libraries
  // load and choose algorithms.
  void judge(const WaitedTime& waited, StepRecord& record);

  static constexpr std::int64_t kSteps = 16;

 private:
  void compare(std::int64_t step);
  Straggler agree_on_straggler();

  double ratio_;
  Communicator& control_;
  std::array<double, kNumOwnTimes> seconds_{};
  bool is_first_ = true;
  std::int64_t num_steps_ = 0;
  int num_consecutive_slow_ = 0;  // comparisons that found the latest rank above the ratio
  std::optional<Straggler> latest_;
};

}  // namespace packtrain
