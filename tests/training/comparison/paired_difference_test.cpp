// Statistics of paired runs against closed forms and numbers worked by hand.
#include "training/comparison/paired_difference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <vector>

#include "training/comparison/student_t.h"

namespace packtrain::paired_difference_test {
namespace {

// Closed forms of the quantiles of 1, 2 and 4 degrees of freedom (W. T. Shaw, Journal of
// Computational Finance 9 (2006)).
double quantile_of_one(double p) {
  return std::tan(std::numbers::pi * (p - 0.5));
}

double quantile_of_two(double p) {
  return (2 * p - 1) * std::sqrt(2 / (4 * p * (1 - p)));
}

double quantile_of_four(double p) {
  const double root = std::sqrt(4 * p * (1 - p));
  return 2 * std::sqrt(std::cos(std::acos(root) / 3) / root - 1);
}

TEST(StudentT, QuantilesAreTheClosedForms) {
  for (const double p : {0.55, 0.8, 0.9, 0.975, 0.999}) {
    EXPECT_NEAR(student_t_quantile(p, 1), quantile_of_one(p), 1e-9 * quantile_of_one(p)) << p;
    EXPECT_NEAR(student_t_quantile(p, 2), quantile_of_two(p), 1e-9 * quantile_of_two(p)) << p;
    EXPECT_NEAR(student_t_quantile(p, 4), quantile_of_four(p), 1e-9 * quantile_of_four(p)) << p;
  }
}

TEST(StudentT, QuantilesAreThoseOfPrintedTables) {
  EXPECT_NEAR(student_t_quantile(0.975, 3), 3.182446, 1e-6);
  EXPECT_NEAR(student_t_quantile(0.975, 9), 2.262157, 1e-6);
  EXPECT_NEAR(student_t_quantile(0.975, 30), 2.042272, 1e-6);
  EXPECT_NEAR(student_t_quantile(0.975, 1e6), 1.959966, 1e-6);
}

TEST(StudentT, ProbabilityIsSymmetricAroundZero) {
  EXPECT_DOUBLE_EQ(student_t_probability(0, 5), 0.5);
  EXPECT_NEAR(student_t_probability(-1.7, 5) + student_t_probability(1.7, 5), 1, 1e-14);
}

// The differences 1, 2, 3 have the mean 2 and the standard error 1 / sqrt(3). The quantiles of 2
// degrees of freedom are t(0.975) = 4.3026527 and t(0.8) = 1.0606602.
TEST(PairedDifferences, AreTheOnesWorkedByHand) {
  const PairedDifference found = paired_difference(std::vector<double>{1, 2, 3});
  EXPECT_EQ(found.num_pairs, 3);
  EXPECT_DOUBLE_EQ(found.mean, 2);
  EXPECT_NEAR(found.half_interval.value(), 4.3026527 / std::sqrt(3.0), 1e-6);
  EXPECT_NEAR(found.smallest_detectable.value(), (4.3026527 + 1.0606602) / std::sqrt(3.0), 1e-6);
}

TEST(PairedDifferences, OfOneSeedHaveNoInterval) {
  const PairedDifference found = paired_difference(std::vector<double>{-0.5});
  EXPECT_DOUBLE_EQ(found.mean, -0.5);
  EXPECT_FALSE(found.half_interval || found.smallest_detectable);
}

TEST(PairedDifferences, ThatAreEqualLeaveNoDoubt) {
  const PairedDifference found = paired_difference(std::vector<double>{0.25, 0.25, 0.25});
  EXPECT_DOUBLE_EQ(found.half_interval.value(), 0);
}

}  // namespace
}  // namespace packtrain::paired_difference_test
