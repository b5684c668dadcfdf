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

}  // namespace packtrain
