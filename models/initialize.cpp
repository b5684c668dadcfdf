#include "models/initialize.h"

#include <ATen/Parallel.h>

#include "framework/support/random.h"

namespace packtrain {
namespace {

void fill_normal(const ParameterSpec& parameter, std::uint64_t seed, std::int64_t begin,
                 const at::Tensor& values) {
  const CounterRandom random(seed, parameter.name);
  const double deviation = parameter.initialization.standard_deviation;
  float* out = values.data_ptr<float>();
  at::parallel_for(0, values.numel(), /*grain_size=*/4096, [&](auto first, auto last) {
    for (std::int64_t i = first; i < last; ++i) {
      const auto counter = static_cast<std::uint64_t>(begin + i);
      out[i] = static_cast<float>(deviation * random.normal(counter));
    }
  });
}

}  // namespace

void initialize(const ParameterSpec& parameter, std::uint64_t seed, std::int64_t begin,
                const at::Tensor& values) {
  switch (parameter.initialization.kind) {
    case Initialization::Kind::kNormal:
      fill_normal(parameter, seed, begin, values);
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
