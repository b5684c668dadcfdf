// The head's matrix product and the weighted cross-entropy of its rows, in one pass with gradients:
//   z = x W^T;  l_n = log sum_v exp(z_nv) - z_n,label;  loss = sum_n w_n l_n
//   dz_nv = w_n (softmax(z_n)_v - [v = label_n]);  dx = dz W;  dW = dz^T x
// x [N, H] supervised rows only, W [V, H], float32 or bfloat16; logits in that dtype, their softmax
// and the loss in float32. Works through chunks of rows (at most 2^29 logits on CUDA, 2^22 on the
// CPU), so that neither [N, V] nor a float32 copy of it ever exists; dz overwrites a chunk's
// logits. With several chunks dW is summed in float32. Deterministic.
// Operations: 2 N V H forward, 4 backward.
#pragma once

#include <ATen/core/Tensor.h>

#include "models/block.h"

namespace packtrain {

struct CrossEntropyTargets {
  at::Tensor labels;      // int32 [N]
  at::Tensor weights;     // float32 [N]
  at::Tensor row_losses;  // float32 [N] to be filled with l_n, or undefined
};

struct CrossEntropyOutput {
  at::Tensor loss;    // float32 []
  at::Tensor grad_x;  // [N, H]; undefined without gradients
};

// With `gradients` also writes d weight. N = 0: loss 0, gradients zero.
CrossEntropyOutput linear_cross_entropy(const at::Tensor& x, const Parameter& weight,
                                        const CrossEntropyTargets& targets, bool gradients);

}  // namespace packtrain
