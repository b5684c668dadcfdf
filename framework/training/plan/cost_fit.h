// From timings of micro-batches to the costs and speeds that ranks are balanced by.
#pragma once

#include <span>
#include <vector>

#include "samplers/options.h"

namespace packtrain {

// A micro-batch and the mean rank's time for it.
struct TimedWork {
  double num_tokens = 0;
  double squares = 0;  // of its examples: AttentionSpan::squares, L^2 without windows
  double seconds = 0;  // > 0
};

// The coefficients >= 0, in seconds, that minimise the sum of squared relative errors of
//   seconds = linear * num_tokens + quadratic * squares + constant.
// This is non-negative least squares (C. Lawson, R. Hanson, "Solving Least Squares Problems", 1974,
// chapter 23); its solution is an ordinary one over the coefficients that are not 0, and of three
// every such set can be tried. linear and quadratic are never both 0: work must cost something.
CostModel fit_cost(std::span<const TimedWork> works);

// Root mean square of the relative errors of a fit.
double fit_error(const CostModel& cost, std::span<const TimedWork> works);

constexpr double kMinSpeed = 0.25;  // further from the mean is rather a fault than a speed
constexpr double kMaxSpeed = 4.0;
constexpr double kMinNoise = 0.02;

// Timings of the same works, repeated, on every rank.
class Timings {
 public:
  // seconds: [ranks][repeats][works].
  Timings(int num_ranks, int num_repeats, int num_works, std::vector<double> seconds);

  // Mean over ranks of the median over repeats.
  std::vector<double> mean_seconds() const;
  // Half the range that a rank's time for all works takes over repeats, relative to its median;
  // the median over ranks, at least kMinNoise.
  double noise() const;
  // [ranks]: mean rank's time for all works / the rank's time, clamped to kMinSpeed..kMaxSpeed.
  // Within noise() of 1: exactly 1, so that equal ranks stay equal to the last bit.
  std::vector<double> speeds() const;

 private:
  double at(int rank, int repeat, int work) const;
  double median_seconds(int rank, int work) const;
  double rank_seconds(int rank) const;  // all works

  int num_ranks_;
  int num_repeats_;
  int num_works_;
  std::vector<double> seconds_;
};

}  // namespace packtrain
