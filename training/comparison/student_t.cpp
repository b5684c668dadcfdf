#include "training/comparison/student_t.h"

#include <cmath>
#include <initializer_list>
#include <limits>

namespace packtrain {
namespace {

constexpr double kTiny = 1e-300;
constexpr int kMaxTerms = 10'000;

double above_zero(double value) {
  return std::abs(value) < kTiny ? kTiny : value;
}

// Continued fraction of the incomplete beta function (DLMF 8.17.22), by Lentz's method. It
// converges fast for x < (a + 1) / (a + b + 2).
double beta_fraction(double a, double b, double x) {
  double c = 1;
  double d = 1 / above_zero(1 - (a + b) * x / (a + 1));
  double value = d;
  for (int m = 1; m < kMaxTerms; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    double factor = 1;
    for (const double coefficient : {even, odd}) {
      d = 1 / above_zero(1 + coefficient * d);
      c = above_zero(1 + coefficient / c);
      factor *= c * d;
    }
    value *= factor;
    if (std::abs(factor - 1) < std::numeric_limits<double>::epsilon()) break;
  }
  return value;
}

// I_x(a, b)
double incomplete_beta(double a, double b, double x) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  if (x > (a + 1) / (a + b + 2)) return 1 - incomplete_beta(b, a, 1 - x);
  const double log_front =
      a * std::log(x) + b * std::log1p(-x) + std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b);
  return std::exp(log_front) * beta_fraction(a, b, x) / a;
}

}  // namespace

double student_t_probability(double t, double degrees) {
  const double tail = incomplete_beta(degrees / 2, 0.5, degrees / (degrees + t * t)) / 2;
  return t > 0 ? 1 - tail : tail;
}

double student_t_quantile(double p, double degrees) {
  double low = 0;
  double high = 1;
  while (student_t_probability(high, degrees) < p) high *= 2;
  for (int i = 0; i < 200 && high - low > 1e-13 * high; ++i) {
    const double middle = (low + high) / 2;
    (student_t_probability(middle, degrees) < p ? low : high) = middle;
  }
  return high;
}

}  // namespace packtrain
