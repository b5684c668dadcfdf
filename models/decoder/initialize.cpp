#include "models/decoder/initialize.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "framework/core/random.h"
#include "models/ops/random_normal/random_normal.h"

namespace packtrain {
namespace {

// Uniform numbers in [0, 1]. The error function maps a normal number to a uniform one in (-1, 1).
void fill_uniform(const ParameterSpec& parameter, std::uint64_t seed, std::int64_t begin,
                  const at::Tensor& values) {
  random_normal(values, CounterRandom(seed, parameter.name), begin, std::numbers::sqrt2 / 2);
  values.erf_().add_(1.0).mul_(0.5);
}

// Logarithms of numbers between the limits. The smallest is positive, so that they are finite.
void fill_log_of_uniform(const Initialization& limits, const at::Tensor& uniform) {
  const double least = std::max(limits.minimum, 1e-4 * limits.maximum);
  uniform.mul_(limits.maximum - limits.minimum).add_(limits.minimum).clamp_min_(least).log_();
}

// y + log(1 - exp(-y)) is the inverse of softplus.
void fill_inverse_softplus(const Initialization& limits, const at::Tensor& uniform) {
  const double low = std::log(limits.minimum);
  uniform.mul_(std::log(limits.maximum) - low).add_(low).exp_();
  uniform.add_(uniform.neg().expm1_().neg_().log_());
}

}  // namespace

void initialize(const ParameterSpec& parameter, std::uint64_t seed, std::int64_t begin,
                const at::Tensor& values) {
  switch (parameter.initialization.kind) {
    case Initialization::Kind::kNormal:
      random_normal(values, CounterRandom(seed, parameter.name), begin,
                    parameter.initialization.standard_deviation);
      return;
    case Initialization::Kind::kUniform:
      // The error function maps a normal number to a uniform one in (-1, 1).
      random_normal(values, CounterRandom(seed, parameter.name), begin, std::numbers::sqrt2 / 2);
      values.erf_().mul_(std::numbers::sqrt3 * parameter.initialization.standard_deviation);
      return;
    case Initialization::Kind::kLogOfUniform:
      fill_uniform(parameter, seed, begin, values);
      fill_log_of_uniform(parameter.initialization, values);
      return;
    case Initialization::Kind::kInverseSoftplus:
      fill_uniform(parameter, seed, begin, values);
      fill_inverse_softplus(parameter.initialization, values);
      return;
    case Initialization::Kind::kConstant:
      values.fill_(parameter.initialization.minimum);
      return;
    case Initialization::Kind::kOnes:
      values.fill_(1.0);
      return;
    case Initialization::Kind::kZeros:
      values.zero_();
      return;
  }
}

}  // namespace packtrain
