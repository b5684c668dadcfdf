#pragma once

#include <ATen/core/Tensor.h>

#include "models/block.h"

namespace packtrain {

// Whether this build and the current GPU have the kernel: compiled for sm_90a, a Hopper GPU.
bool has_grouped_wgrad_cuda();

// dW[e] = sum over a in e of left[a]^T right[a], of groups that end at ends[e] (int32 [E]): in
// float32 until it is written to the gradient of weight [E, N, K], float32 or bfloat16, or added to
// it; zeros for groups without rows. left [A, N] and right [A, K] bfloat16 on CUDA, A at least 1,
// with columns of stride 1 and rows that start at multiples of 16 bytes.
void grouped_weight_gradient_cuda(const Parameter& weight, const at::Tensor& left,
                                  const at::Tensor& right, const at::Tensor& ends);

}  // namespace packtrain
