// Replaces cudnn.cpp in a build without CUDA.
#include "models/ops/attention/cudnn/attention.h"
#include "models/ops/cuda/not_built.h"

namespace packtrain {

AttentionOutput cudnn_forward(const at::Tensor&, const AttentionShape&, const DeviceBatch&) {
  throw_cuda_not_built("attention");
}

HeadGradients cudnn_backward(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                             const std::vector<at::Tensor>&, const AttentionShape&,
                             const DeviceBatch&) {
  throw_cuda_not_built("attention");
}

AttentionOutput cudnn_forward_at(const AttentionBucket&, const at::Tensor&, const AttentionShape&,
                                 const DeviceBatch&) {
  throw_cuda_not_built("attention");
}

HeadGradients cudnn_backward_at(const AttentionBucket&, const at::Tensor&, const at::Tensor&,
                                const at::Tensor&, const std::vector<at::Tensor>&,
                                const AttentionShape&, const DeviceBatch&) {
  throw_cuda_not_built("attention");
}

void set_cudnn_plan_tokens(std::int64_t) {}

std::int64_t cudnn_workspace_bytes(const AttentionBucket&, const AttentionShape&, bool,
                                   at::Device) {
  throw_cuda_not_built("attention");
}

int cudnn_capability_major() {
  return 9;
}

std::int64_t num_cudnn_plans() {
  return 0;
}

}  // namespace packtrain
