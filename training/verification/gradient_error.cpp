#include "training/verification/gradient_error.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace packtrain {
namespace {

constexpr double kSmallestShare = 1e-6;

double norm_of(const at::Tensor& values) {
  return values.norm().item<double>();
}

// Of the owned elements that belong to the part.
double square_sum(const OwnedGradient& got, const at::Tensor& difference,
                  const ParameterPart& part) {
  double sum = 0;
  for (std::int64_t run = 0; run < part.num_runs; ++run) {
    const std::int64_t first = (part.begin + run * part.stride) * got.row_numel - got.begin;
    const std::int64_t begin = std::max(first, std::int64_t{0});
    const std::int64_t end = std::min(first + part.num_rows * got.row_numel, difference.numel());
    if (begin < end) sum += std::pow(norm_of(difference.narrow(0, begin, end - begin)), 2);
  }
  return sum;
}

}  // namespace

ReferenceGradients::ReferenceGradients(const std::vector<OwnedGradient>& whole) {
  const at::NoGradGuard no_grad;
  for (const OwnedGradient& gradient : whole) {
    const double norm = norm_of(gradient.values);
    references_[gradient.parameter] = {gradient.values, norm};
    model_norm_ += norm * norm;
  }
  model_norm_ = std::sqrt(model_norm_);
}

double ReferenceGradients::error_of(const OwnedGradient& got) const {
  const at::NoGradGuard no_grad;
  const Reference& reference = references_.at(got.parameter);
  const at::Tensor want = reference.values.narrow(0, got.begin, got.values.numel());
  const double difference = norm_of(got.values.sub(want));
  if (difference == 0) return 0;
  if (!std::isfinite(model_norm_)) return std::numeric_limits<double>::quiet_NaN();
  return difference / std::max(reference.norm, kSmallestShare * model_norm_);
}

std::string ReferenceGradients::most_of_it(const OwnedGradient& got) const {
  if (got.parts.size() < 2) return {};
  const at::NoGradGuard no_grad;
  const at::Tensor want =
      references_.at(got.parameter).values.narrow(0, got.begin, got.values.numel());
  const at::Tensor difference = got.values.sub(want);
  const ParameterPart& worst = *std::ranges::max_element(
      got.parts, {}, [&](const ParameterPart& part) { return square_sum(got, difference, part); });
  return " (most of it in " + worst.tensor + ")";
}

}  // namespace packtrain
