#pragma once

#include <ATen/core/Tensor.h>

#include "models/block/block.h"

namespace packtrain {

// True when this build has the kernel (compiled for sm_90a) and the current GPU is a Hopper GPU.
bool has_grouped_wgrad_cuda();

// dW[e] = sum over a in e of left[a]^T right[a], for groups that end at ends[e] (int32 [E]). Sums
// in float32, then writes the gradient of weight [E, N, K], float32 or bfloat16, or adds to it.
// Groups without rows get zeros. Operands left [A, N] and right [A, K] are bfloat16 on CUDA, with A
// at least 1. Their columns have stride 1, and their rows start at multiples of 16 bytes.
void grouped_weight_gradient_cuda(const Parameter& weight, const at::Tensor& left,
                                  const at::Tensor& right, const at::Tensor& ends);

}  // namespace packtrain
