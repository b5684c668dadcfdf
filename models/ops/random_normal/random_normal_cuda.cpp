#include "models/ops/random_normal/random_normal.h"

#include <c10/cuda/CUDAGuard.h>

#include "models/ops/cuda/current_stream.h"
#include "models/ops/random_normal/random_normal_launch.h"

namespace packtrain {

void random_normal_cuda(const at::Tensor& values, const CounterRandom& random, std::int64_t begin,
                        double deviation) {
  if (values.numel() == 0) return;
  const c10::cuda::CUDAGuard guard(values.device());
  launch_random_normal({random, begin, deviation, values.data_ptr<float>(), values.numel()},
                       current_stream(values));
}

}  // namespace packtrain
