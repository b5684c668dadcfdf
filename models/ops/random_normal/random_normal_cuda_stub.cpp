// Replaces the CUDA operator in a build without CUDA.
#include "models/ops/cuda/not_built.h"
#include "models/ops/random_normal/random_normal_cuda.h"

namespace packtrain {

void random_normal_cuda(const at::Tensor& /*values*/, const CounterRandom& /*random*/,
                        std::int64_t /*begin*/, double /*deviation*/) {
  throw_cuda_not_built("random_normal");
}

}  // namespace packtrain
