// Attention through cuDNN's fused kernels for packed ("ragged") sequences; see attention.h.
// https://docs.nvidia.com/deeplearning/cudnn/frontend/latest/operations/Attention.html
#pragma once

#include "models/ops/attention/attention.h"
#include "models/ops/attention/cudnn_buckets.h"

namespace packtrain {

// saved: {stats}. The workspace is an ordinary tensor of the caching allocator, of the same size at
// every call of a bucket.
AttentionOutput cudnn_forward(const at::Tensor& qkv, const AttentionShape& shape,
                              const DeviceBatch& batch);
HeadGradients cudnn_backward(const at::Tensor& grad_output, const at::Tensor& qkv,
                             const at::Tensor& y, const std::vector<at::Tensor>& saved,
                             const AttentionShape& shape, const DeviceBatch& batch);

// The same with the plan of this very bucket, which must be large enough: for comparisons.
AttentionOutput cudnn_forward_at(const AttentionBucket& bucket, const at::Tensor& qkv,
                                 const AttentionShape& shape, const DeviceBatch& batch);
HeadGradients cudnn_backward_at(const AttentionBucket& bucket, const at::Tensor& grad_output,
                                const at::Tensor& qkv, const at::Tensor& y,
                                const std::vector<at::Tensor>& saved, const AttentionShape& shape,
                                const DeviceBatch& batch);

// From now on all batches get plans for at least so many tokens: one serves all within it, at no
// cost in time. Process-wide.
void set_cudnn_plan_tokens(std::int64_t num_tokens);

// What the plan of a bucket asks for.
std::int64_t cudnn_workspace_bytes(const AttentionBucket& bucket, const AttentionShape& shape,
                                   bool backward, at::Device device);

// Major compute capability of the current GPU, told once a process: its GPUs are taken to be alike.
// 9 (Hopper) where there is none: plans are made for one.
int cudnn_capability_major();

// Plans built so far in this process.
std::int64_t num_cudnn_plans();

}  // namespace packtrain
