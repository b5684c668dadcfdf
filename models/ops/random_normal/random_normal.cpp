#include "models/ops/random_normal/random_normal.h"

#include <ATen/Parallel.h>

namespace packtrain {

void random_normal(const at::Tensor& values, const CounterRandom& random, std::int64_t begin,
                   double deviation) {
  if (values.is_cuda()) {
    random_normal_cuda(values, random, begin, deviation);
    return;
  }
  float* out = values.data_ptr<float>();
  at::parallel_for(0, values.numel(), /*grain_size=*/4096, [&](auto first, auto last) {
    for (std::int64_t i = first; i < last; ++i) {
      const auto counter = static_cast<std::uint64_t>(begin + i);
      out[i] = static_cast<float>(deviation * random.normal(counter));
    }
  });
}

}  // namespace packtrain
