#pragma once

#include "models/ops/random_normal/random_normal.h"

namespace packtrain {

// random_normal() on a GPU. Throws Error(kDevice) in a build without CUDA.
void random_normal_cuda(const at::Tensor& values, const CounterRandom& random, std::int64_t begin,
                        double deviation);

}  // namespace packtrain
