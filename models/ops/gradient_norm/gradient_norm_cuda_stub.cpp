// Replaces the CUDA operator in a build without CUDA.
#include "models/ops/cuda/not_built.h"
#include "models/ops/gradient_norm/gradient_norm_cuda.h"

namespace packtrain {

at::Tensor squared_norm_partials_cuda(const at::Tensor& /*values*/) {
  throw_cuda_not_built("squared_norm_partials");
}

at::Tensor step_sums_cuda(const at::Tensor& /*partials*/, const at::Tensor& /*loss*/,
                          const RequestFlags& /*requests*/, const at::Tensor& /*details*/) {
  throw_cuda_not_built("step_sums");
}

StepScalars step_scalars_cuda(const at::Tensor& /*sums*/, double /*max_norm*/,
                              const RefusalBounds& /*bounds*/) {
  throw_cuda_not_built("step_scalars");
}

}  // namespace packtrain
