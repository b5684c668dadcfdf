#include "models/decoder/initialize.h"

#include <numbers>

#include "framework/core/random.h"
#include "models/ops/random_normal/random_normal.h"

namespace packtrain {

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
    case Initialization::Kind::kOnes:
      values.fill_(1.0);
      return;
    case Initialization::Kind::kZeros:
      values.zero_();
      return;
  }
}

}  // namespace packtrain
