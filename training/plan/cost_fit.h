// Fits costs and speeds, by which ranks are balanced, to timings of micro-batches.
#pragma once

#include <span>
#include <vector>

#include "samplers/options.h"

namespace packtrain {

// A micro-batch and its time, as a mean over ranks.
struct TimedWork {
  double num_tokens = 0;
  double squares = 0;  // of its examples: AttentionSpan::squares, L^2 without windows
  double seconds = 0;  // > 0
};

// The coefficients >= 0, in seconds, that minimise the sum of squared relative errors of
//   seconds = linear * num_tokens + quadratic * squares + constant.
// Non-negative least squares (C. Lawson, R. Hanson, "Solving Least Squares Problems", 1974, chapter
// 23). Its solution is an ordinary least-squares solution over the coefficients that are not 0.
// With three coefficients every such set can be tried. linear and quadratic are never both 0.
CostModel fit_cost(std::span<const TimedWork> works);

// Root mean square of the relative errors of a fit.
double fit_error(const CostModel& cost, std::span<const TimedWork> works);

constexpr double kMinSpeed = 0.25;  // a rank further from the mean is more likely faulty than slow
constexpr double kMaxSpeed = 4.0;
constexpr double kMinNoise = 0.02;

// Repeated timings of the same micro-batches on every rank.
class Timings {
 public:
  // seconds: [ranks][repeats][works].
  Timings(int num_ranks, int num_repeats, int num_works, std::vector<double> seconds);

  // Mean over ranks of the median over repeats.
  std::vector<double> mean_seconds() const;
  // Half the range of a rank's total time over repeats, relative to its median. Returns the median
  // over ranks, at least kMinNoise.
  double noise() const;
  // [ranks]: mean total time of the ranks / the rank's total time, clamped to kMinSpeed..kMaxSpeed.
  // Exactly 1 within noise() of 1, so that equal ranks get bit-equal speeds.
  std::vector<double> speeds() const;

 private:
  double at(int rank, int repeat, int work) const;
  double median_seconds(int rank, int work) const;
  double rank_seconds(int rank) const;  // sum over all works

  int num_ranks_;
  int num_repeats_;
  int num_works_;
  std::vector<double> seconds_;
};

}  // namespace packtrain
