#include "training/plan/cost_fit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <utility>

#include "framework/core/math.h"

namespace packtrain {
namespace {

constexpr std::size_t kNumTerms = 3;  // linear, quadratic, constant
using Terms = std::array<double, kNumTerms>;

constexpr double kSingular = 1e-12;  // limit for the pivots of normal equations whose diagonal is 1

Terms terms_of(const TimedWork& work) {
  return {work.num_tokens, work.squares, 1.0};
}

double predicted(const Terms& coefficients, const TimedWork& work) {
  const Terms terms = terms_of(work);
  double seconds = 0;
  for (std::size_t i = 0; i < kNumTerms; ++i) seconds += coefficients[i] * terms[i];
  return seconds;
}

double squared_error(const Terms& coefficients, std::span<const TimedWork> works) {
  double sum = 0;
  for (const TimedWork& work : works) {
    const double error = predicted(coefficients, work) / work.seconds - 1.0;
    sum += error * error;
  }
  return sum;
}

// Normal equations of the relative errors: matrix * coefficients = right.
struct NormalEquations {
  std::array<Terms, kNumTerms> matrix{};
  Terms right{};
};

NormalEquations normal_equations(std::span<const TimedWork> works) {
  NormalEquations equations;
  for (const TimedWork& work : works) {
    const Terms terms = terms_of(work);
    for (std::size_t i = 0; i < kNumTerms; ++i) {
      equations.right[i] += terms[i] / work.seconds;
      for (std::size_t j = 0; j < kNumTerms; ++j) {
        equations.matrix[i][j] += terms[i] / work.seconds * (terms[j] / work.seconds);
      }
    }
  }
  return equations;
}

// Sets the terms outside `chosen` to 0 and the diagonal to 1. Term i is measured in units of
// scale[i], because seconds a token and a squared token differ by many powers of ten.
Terms restrict_to(unsigned chosen, NormalEquations& equations) {
  Terms scale{};
  for (std::size_t i = 0; i < kNumTerms; ++i) {
    scale[i] = (chosen >> i & 1U) != 0 ? 1.0 / std::sqrt(equations.matrix[i][i]) : 0.0;
  }
  for (std::size_t i = 0; i < kNumTerms; ++i) {
    equations.right[i] *= scale[i];
    for (std::size_t j = 0; j < kNumTerms; ++j) equations.matrix[i][j] *= scale[i] * scale[j];
    equations.matrix[i][i] = 1.0;
  }
  return scale;
}

// Gauss-Jordan elimination. The matrix is symmetric and positive semidefinite, so it needs no
// pivoting.
std::optional<Terms> solve(unsigned chosen, NormalEquations equations) {
  const Terms scale = restrict_to(chosen, equations);
  auto& [matrix, right] = equations;
  for (std::size_t pivot = 0; pivot < kNumTerms; ++pivot) {
    if (!(matrix[pivot][pivot] > kSingular)) return std::nullopt;
    for (std::size_t row = 0; row < kNumTerms; ++row) {
      if (row == pivot) continue;
      const double factor = matrix[row][pivot] / matrix[pivot][pivot];
      for (std::size_t column = 0; column < kNumTerms; ++column) {
        matrix[row][column] -= factor * matrix[pivot][column];
      }
      right[row] -= factor * right[pivot];
    }
  }
  Terms coefficients{};
  for (std::size_t i = 0; i < kNumTerms; ++i) {
    coefficients[i] = right[i] / matrix[i][i] * scale[i];
  }
  return coefficients;
}

}  // namespace

CostModel fit_cost(std::span<const TimedWork> works) {
  const NormalEquations equations = normal_equations(works);
  Terms best{};
  double least = std::numeric_limits<double>::infinity();
  for (unsigned chosen = 1; chosen < (1U << kNumTerms); ++chosen) {
    if ((chosen & 3U) == 0) continue;  // only the constant
    const auto found = solve(chosen, equations);
    if (!found || std::ranges::any_of(*found, [](double value) { return value < 0; })) continue;
    const double error = squared_error(*found, works);
    if (error >= least) continue;
    least = error;
    best = *found;
  }
  return {.linear = best[0], .quadratic = best[1], .constant = best[2]};
}

double fit_error(const CostModel& cost, std::span<const TimedWork> works) {
  const Terms coefficients = {cost.linear, cost.quadratic, cost.constant};
  return std::sqrt(squared_error(coefficients, works) / static_cast<double>(works.size()));
}

Timings::Timings(int num_ranks, int num_repeats, int num_works, std::vector<double> seconds)
    : num_ranks_(num_ranks),
      num_repeats_(num_repeats),
      num_works_(num_works),
      seconds_(std::move(seconds)) {}

double Timings::at(int rank, int repeat, int work) const {
  const int place = (rank * num_repeats_ + repeat) * num_works_ + work;
  return seconds_[static_cast<std::size_t>(place)];
}

double Timings::median_seconds(int rank, int work) const {
  std::vector<double> repeats;
  for (int repeat = 0; repeat < num_repeats_; ++repeat) repeats.push_back(at(rank, repeat, work));
  return median(std::move(repeats));
}

double Timings::rank_seconds(int rank) const {
  double sum = 0;
  for (int work = 0; work < num_works_; ++work) sum += median_seconds(rank, work);
  return sum;
}

std::vector<double> Timings::mean_seconds() const {
  std::vector<double> mean(static_cast<std::size_t>(num_works_), 0.0);
  for (int work = 0; work < num_works_; ++work) {
    for (int rank = 0; rank < num_ranks_; ++rank) {
      mean[static_cast<std::size_t>(work)] += median_seconds(rank, work) / num_ranks_;
    }
  }
  return mean;
}

double Timings::noise() const {
  std::vector<double> spreads;
  for (int rank = 0; rank < num_ranks_; ++rank) {
    double least = std::numeric_limits<double>::infinity();
    double most = 0;
    for (int repeat = 0; repeat < num_repeats_; ++repeat) {
      double sum = 0;
      for (int work = 0; work < num_works_; ++work) sum += at(rank, repeat, work);
      least = std::min(least, sum);
      most = std::max(most, sum);
    }
    spreads.push_back((most - least) / 2 / rank_seconds(rank));
  }
  return std::max(kMinNoise, median(std::move(spreads)));
}

std::vector<double> Timings::speeds() const {
  std::vector<double> speeds;
  double mean = 0;
  for (int rank = 0; rank < num_ranks_; ++rank) {
    speeds.push_back(rank_seconds(rank));
    mean += speeds.back() / num_ranks_;
  }
  const double noise = this->noise();
  for (double& speed : speeds) {
    speed = std::clamp(mean / speed, kMinSpeed, kMaxSpeed);
    if (std::abs(speed - 1.0) <= noise) speed = 1.0;
  }
  return speeds;
}

}  // namespace packtrain
