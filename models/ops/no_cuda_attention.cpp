// Replaces the CUDA kernels of attention in a build without CUDA.
#include "models/ops/attention/cudnn/attention.h"
#include "models/ops/attention/expanded_keys.h"
#include "models/ops/attention/short/attention.h"
#include "models/ops/attention/wide/attention.h"
#include "models/ops/attention/wide/launch.h"
#include "models/ops/cuda/not_built.h"

namespace packtrain {

at::Tensor expand_rows_cuda(const at::Tensor& /*heads*/, const ExpandedKeys& /*keys*/) {
  throw_cuda_not_built("expand_rows");
}

void sum_copies_cuda(const at::Tensor& /*copies*/, const ExpandedKeys& /*keys*/,
                     const at::Tensor& /*out*/) {
  throw_cuda_not_built("sum_copies");
}

ShortKernels short_kernels() {
  return {};
}

void short_backward(const at::Tensor&, const PackedHeads&, const at::Tensor&, const at::Tensor&,
                    const AttentionShape&, const ShortUnits&, const HeadGradients&) {
  throw_cuda_not_built("attention");
}

AttentionOutput cudnn_forward(const at::Tensor&, const AttentionShape&, DeviceBatch&,
                              const OperatorOptions&) {
  throw_cuda_not_built("attention");
}

HeadGradients cudnn_backward(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                             const std::vector<at::Tensor>&, const AttentionShape&, DeviceBatch&,
                             const OperatorOptions&) {
  throw_cuda_not_built("attention");
}

AttentionOutput cudnn_forward_at(const AttentionBucket&, const at::Tensor&, const AttentionShape&,
                                 DeviceBatch&) {
  throw_cuda_not_built("attention");
}

HeadGradients cudnn_backward_at(const AttentionBucket&, const at::Tensor&, const at::Tensor&,
                                const at::Tensor&, const std::vector<at::Tensor>&,
                                const AttentionShape&, DeviceBatch&) {
  throw_cuda_not_built("attention");
}

HeadGradients divided_backward(std::int64_t, const at::Tensor&, const at::Tensor&,
                               const at::Tensor&, const std::vector<at::Tensor>&,
                               const AttentionShape&, DeviceBatch&, const OperatorOptions&) {
  throw_cuda_not_built("attention");
}

std::int64_t cudnn_workspace_bytes(const AttentionBucket&, const AttentionShape&, bool,
                                   at::Device) {
  throw_cuda_not_built("attention");
}

int wide_shared_bytes() {
  return kWideSharedBytes;
}

AttentionOutput wide_forward(AttentionBackend /*backend*/, const at::Tensor& /*qkv*/,
                             const AttentionShape& /*shape*/, DeviceBatch& /*batch*/) {
  throw_cuda_not_built("wide_forward");
}

HeadGradients wide_backward(AttentionBackend /*backend*/, const at::Tensor& /*grad_output*/,
                            const at::Tensor& /*qkv*/, const at::Tensor& /*y*/,
                            const std::vector<at::Tensor>& /*saved*/,
                            const AttentionShape& /*shape*/, DeviceBatch& /*batch*/) {
  throw_cuda_not_built("wide_backward");
}

int cudnn_capability_major() {
  return 9;
}

std::int64_t num_cudnn_plans() {
  return 0;
}

}  // namespace packtrain
