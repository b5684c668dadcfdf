// Compares the ranks' own times, to find the one that all others wait for.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "framework/device/device.h"
#include "framework/metrics/metrics.h"
#include "parallel/communicator.h"

namespace packtrain {

// What a rank does in a step besides waiting for other ranks.
enum class OwnTime { kData, kCompute };
inline constexpr int kNumOwnTimes = 2;

const char* name_of(OwnTime phase);

struct Straggler {
  int rank = 0;
  OwnTime phase = OwnTime::kCompute;
  double ratio = 1;             // of its time to the ranks' median
  double seconds_per_step = 0;  // beyond the median
};

// Of the phase and rank whose time exceeds the ranks' median the most. `seconds` [ranks,
// kNumOwnTimes]: added up over `num_steps` steps. The ratio is of the rank's whole own time with
// that phase's excess over the median's, so that a phase of microseconds is no straggler.
Straggler find_straggler(std::span<const double> seconds, int num_ranks, std::int64_t num_steps);

class StragglerDetector {
 public:
  // `ratio`: guard.straggler_ratio; 0: never compares. Rank 0 warns of a rank that is above it in
  // two comparisons in a row, once until another is, or none.
  StragglerDetector(double ratio, Communicator& control) : ratio_(ratio), control_(control) {}

  // Takes this rank's times of a step and writes the latest answer into its record. Collective
  // where the step's number is a multiple of kSteps. A process's first step, in which libraries are
  // still choosing and loading, does not count.
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
