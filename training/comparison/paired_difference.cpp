#include "training/comparison/paired_difference.h"

#include <cmath>
#include <iterator>

#include "training/comparison/student_t.h"

namespace packtrain {

PairedDifference paired_difference(std::span<const double> differences) {
  PairedDifference result;
  result.num_pairs = std::ssize(differences);
  const auto count = static_cast<double>(differences.size());
  for (const double difference : differences) result.mean += difference / count;
  if (result.num_pairs < 2) return result;
  double squares = 0;
  for (const double difference : differences) squares += std::pow(difference - result.mean, 2);
  const double error = std::sqrt(squares / (count - 1) / count);  // standard error of the mean
  const double two_sided = student_t_quantile((1 + kConfidence) / 2, count - 1);
  result.half_interval = two_sided * error;
  result.smallest_detectable = (two_sided + student_t_quantile(kPower, count - 1)) * error;
  return result;
}

}  // namespace packtrain
