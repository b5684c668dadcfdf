// The head's matrix product and the weighted cross-entropy of its rows, in one pass with gradients:
//   z = x W^T + b;  s = c tanh(z / c), or z without soft cap;  L_n = log sum_v exp(s_nv)
//   l_n = L_n - s_n,label + z_loss L_n^2;  loss = sum_n w_n l_n
//   ds_nv = w_n ((1 + 2 z_loss L_n) softmax(s_n)_v - [v = label_n]);  dz = ds (1 - (s / c)^2)
//   dx = dz W;  dW = dz^T x;  db = sum over rows of dz
// x [N, H] supervised rows only, W [V, H], b [V], float32 or bfloat16; logits in that dtype, their
// softmax and the loss in float32. The gradients of W and b have that dtype or float32. Works
// through chunks of rows, so that neither [N, V] nor a float32 copy of it ever exists; dz
// overwrites a chunk's logits. dW is summed over chunks in float32 by the matrix product itself, db
// beside it. Deterministic. Operations: 2 N V H forward, 4 backward. Soft cap: Gemma 2, arXiv
// 2408.00118, section 2; z-loss: PaLM, arXiv 2204.02311, section 5.
#pragma once

#include <ATen/core/Tensor.h>

#include "models/block.h"

namespace packtrain {

struct CrossEntropyTargets {
  at::Tensor labels;      // int32 [N], each in 0 .. V-1
  at::Tensor weights;     // float32 [N]
  at::Tensor row_losses;  // float32 [N] to be filled with l_n, or undefined
};

struct CrossEntropyOptions {
  double soft_cap = 0;          // 0: none
  double z_loss = 0;            // coefficient of L_n^2
  std::int64_t chunk_rows = 0;  // 0: see plan_head_chunks
};

struct CrossEntropyOutput {
  at::Tensor loss;    // float32 []
  at::Tensor grad_x;  // [N, H]; undefined without gradients
};

// With `gradients` also writes d weight and d bias. N = 0: loss 0, gradients zero. `bias` may be
// null.
CrossEntropyOutput linear_cross_entropy(const at::Tensor& x, const Parameter& weight,
                                        const CrossEntropyTargets& targets, bool gradients,
                                        const CrossEntropyOptions& options = {},
                                        const Parameter* bias = nullptr);

// What decides on chunks, beside the device.
struct HeadSize {
  std::int64_t num_rows = 0;
  std::int64_t vocab_size = 0;
  std::int64_t hidden_size = 0;
  std::int64_t element_bytes = 0;
  bool narrow_gradient = false;  // d weight is wanted in less than float32
};

struct HeadChunks {
  std::int64_t rows = 0;  // of a chunk; the last may have fewer
  std::int64_t logits_bytes = 0;
  std::int64_t gradient_bytes = 0;  // the float32 sum of d weight, where there is one
  std::int64_t weight_bytes = 0;    // its copy, of a vocabulary that is no multiple of 8
};

// On a GPU chunks of about 2 GiB of bfloat16 logits: on an H200 chunks of half as many rows make
// the whole 3 % slower (8192 x 4096 x 128256: 40.1 for 38.8 ms; 16384 x 2048: 41.5 for 40.2 ms). A
// single chunk where that takes no more memory than a chunk with the float32 sum would.
HeadChunks plan_head_chunks(const HeadSize& size, bool on_gpu);

}  // namespace packtrain
