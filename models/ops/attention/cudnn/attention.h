// Attention through cuDNN's fused kernels for packed ("ragged") sequences; see attention.h.
// https://docs.nvidia.com/deeplearning/cudnn/frontend/latest/operations/Attention.html
#pragma once

#include "models/ops/attention/attention.h"
#include "models/ops/attention/cudnn/buckets.h"

namespace packtrain {

// saved: {stats}. The workspace is a tensor of the caching allocator. It has the same size at every
// call of a bucket.
AttentionOutput cudnn_forward(const at::Tensor& qkv, const AttentionShape& shape,
                              DeviceBatch& batch, const OperatorOptions& options);
HeadGradients cudnn_backward(const at::Tensor& grad_output, const at::Tensor& qkv,
                             const at::Tensor& y, const std::vector<at::Tensor>& saved,
                             const AttentionShape& shape, DeviceBatch& batch,
                             const OperatorOptions& options);

// The same with the plan of this bucket, which must be large enough. For comparisons.
AttentionOutput cudnn_forward_at(const AttentionBucket& bucket, const at::Tensor& qkv,
                                 const AttentionShape& shape, DeviceBatch& batch);
HeadGradients cudnn_backward_at(const AttentionBucket& bucket, const at::Tensor& grad_output,
                                const at::Tensor& qkv, const at::Tensor& y,
                                const std::vector<at::Tensor>& saved, const AttentionShape& shape,
                                DeviceBatch& batch);

// The backward with kernels of our own for sequences of at most `max_keys` keys. cuDNN has the
// others. short_attention_serves() must be true. cudnn_backward() chooses `max_keys`.
HeadGradients divided_backward(std::int64_t max_keys, const at::Tensor& grad_output,
                               const at::Tensor& qkv, const at::Tensor& y,
                               const std::vector<at::Tensor>& saved, const AttentionShape& shape,
                               DeviceBatch& batch, const OperatorOptions& options);

// Workspace bytes of the plan of a bucket.
std::int64_t cudnn_workspace_bytes(const AttentionBucket& bucket, const AttentionShape& shape,
                                   bool backward, at::Device device);

// Major compute capability of the current GPU, read once a process; its GPUs are assumed to be
// equal. Without a GPU it is 9 (Hopper), for which plans are then computed.
int cudnn_capability_major();

// Number of plans built in this process.
std::int64_t num_cudnn_plans();

}  // namespace packtrain
