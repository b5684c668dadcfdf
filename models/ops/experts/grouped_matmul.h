// Matrix products of groups of rows, each group with a matrix of its own:
//   grouped_matmul            out[a] = left[a] right[e]          a in group e
//   grouped_weight_gradient   dW[e] = sum over a in e of left[a]^T right[a]
// Groups are consecutive rows that end at ends[e] (int32 [E], on the device); a group may be empty.
// float32 or bfloat16, sums in float32. In bfloat16 on CUDA one launch, which reads the ends on the
// device: libtorch's grouped kernels, and for gradients one of our own (grouped_wgrad.cu);
// widths that are no multiple of 8 are padded with zeros to one, which copies the operands. On the
// CPU, for float32 on CUDA, and for gradients on GPUs other than Hopper's, one product after
// another, which waits for the ends. Deterministic. 2 A K N operations each.
#pragma once

#include <ATen/core/Tensor.h>

#include "models/block.h"

namespace packtrain {

// left [A, K]; right [E, K, N], columns or rows of stride 1; returns [A, N].
at::Tensor grouped_matmul(const at::Tensor& left, const at::Tensor& right, const at::Tensor& ends);

// left [A, N], right [A, K]; writes the gradient of weight [E, N, K], of their dtype or float32;
// zeros for empty groups.
void grouped_weight_gradient(const Parameter& weight, const at::Tensor& left,
                             const at::Tensor& right, const at::Tensor& ends);

// Whether both read the ends on the device alone, in bfloat16 on the current GPU.
bool grouped_gemm_sizes_stay_on_device();

}  // namespace packtrain
