// Cross entropy of rows of logits z [N, V], and the gradient of its sum with weights of either
// sign, without the projection before it:
//    s = c tanh(z / c), or z without soft cap;  L_n = log sum_v exp(s_nv)
//    l_n = L_n - s_n,label;  loss = sum_n w_n l_n
//    ds_nv = w_n (softmax(s_n)_v - [v = label_n]);  dz = ds (1 - (s / c)^2)
// Logits are float32 or bfloat16. Softmax and loss are float32. Deterministic. Moves 2 N V
// elements. The part of a row that does not fit in shared memory is read twice, the second time
// mostly from L2. Very wide rows use the shared memory of two multiprocessors. Soft cap: Gemma 2,
// arXiv 2408.00118, section 2.
#pragma once

#include <ATen/core/Tensor.h>

namespace packtrain {

struct CrossEntropyTargets {
  at::Tensor labels;      // int32 [N], each in 0 .. V-1
  at::Tensor weights;     // float32 [N], or undefined: no gradient
  at::Tensor row_losses;  // float32 [N], receives l_n
};

struct CrossEntropyOptions {
  double soft_cap = 0;  // 0: none
};

// Rows of the logits start at multiples of 16 bytes. Fills targets.row_losses. Where there are
// weights, the logits are overwritten by their gradient. Elements between the rows may be
// overwritten.
void cross_entropy(const at::Tensor& logits, const CrossEntropyTargets& targets,
                   const CrossEntropyOptions& options);

// On CUDA tensors. The functions above call these; no_cuda.cpp has them in a build without CUDA.
void cross_entropy_cuda(const at::Tensor& logits, const CrossEntropyTargets& targets,
                        const CrossEntropyOptions& options);

}  // namespace packtrain
