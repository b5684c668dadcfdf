// The difference of a figure between two settings, from runs that share seeds.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace packtrain {

inline constexpr double kConfidence = 0.95;
inline constexpr double kPower = 0.8;

struct PairedDifference {
  std::int64_t num_pairs = 0;
  double mean = 0;
  // t(0.975, n - 1) * s / sqrt(n), where s is the sample standard deviation of the n differences.
  // The interval mean +- this holds the true mean with probability kConfidence. Nothing for one
  // pair.
  std::optional<double> half_interval;
  // (t(0.975, n - 1) + t(0.8, n - 1)) * s / sqrt(n). A two-sided test of level 1 - kConfidence
  // finds a true mean of this size with probability kPower.
  std::optional<double> smallest_detectable;
};

// `differences`: one for each seed, at least one. Student, Biometrika 6 (1908). The power takes the
// central t distribution for the noncentral one, as in Snedecor and Cochran, Statistical Methods.
PairedDifference paired_difference(std::span<const double> differences);

}  // namespace packtrain
