// Fused cross entropy: the head's projection and the weighted cross entropy of its rows, in one
// pass with the gradients:
//    z = x W^T + b;  s = c tanh(z / c), or z without soft cap;  L_n = log sum_v exp(s_nv)
//    l_n = L_n - s_n,label;  loss = sum_n w_n l_n
//    ds_nv = w_n (softmax(s_n)_v - [v = label_n]);  dz = ds (1 - (s / c)^2)
//    dx = dz W;  dW = dz^T x;  db = sum over rows of dz
// x [N, H] has only supervised rows. x, W [V, H] and b [V] are float32 or bfloat16, and so are the
// logits. Softmax and loss are float32. The gradients of W and b have that dtype or are float32.
//
// Works on chunks of rows, so that neither [N, V] nor a float32 copy of it exists. dz overwrites
// the logits of a chunk. The GEMM itself sums dW over chunks in float32; db is summed separately.
// Deterministic. Operations: 2 N V H forward, 4 backward. Soft cap: Gemma 2, arXiv 2408.00118,
// section 2.
#pragma once

#include <ATen/core/Tensor.h>

#include "models/block/block.h"

namespace packtrain {

struct CrossEntropyTargets {
  at::Tensor labels;      // int32 [N], each in 0 .. V-1
  at::Tensor weights;     // float32 [N]
  at::Tensor row_losses;  // float32 [N], receives l_n; or undefined
};

struct CrossEntropyOptions {
  double soft_cap = 0;          // 0: none
  std::int64_t chunk_rows = 0;  // 0: see plan_head_chunks
  GemmTiming gemm_timing = {};
};

struct CrossEntropyOutput {
  at::Tensor loss;    // float32 []
  at::Tensor grad_x;  // [N, H]; undefined without gradients
};

// `gradients` also writes dW and db. N = 0 gives loss 0 and zero gradients. `bias` may be null.
CrossEntropyOutput linear_cross_entropy(const at::Tensor& x, const Parameter& weight,
                                        const CrossEntropyTargets& targets, bool gradients,
                                        const CrossEntropyOptions& options = {},
                                        const Parameter* bias = nullptr);

// Input of plan_head_chunks.
struct HeadSize {
  std::int64_t num_rows = 0;
  std::int64_t vocab_size = 0;
  std::int64_t hidden_size = 0;
  std::int64_t element_bytes = 0;
  bool narrow_gradient = false;  // d weight is stored in less than float32
};

struct HeadChunks {
  std::int64_t rows = 0;  // of a chunk; the last one may have fewer
  std::int64_t logits_bytes = 0;
  std::int64_t gradient_bytes = 0;  // float32 sum of d weight, if any
  std::int64_t weight_bytes = 0;    // padded copy, if V is not a multiple of 8
};

// On a GPU, chunks have about 2 GiB of bfloat16 logits. Chunks of half as many rows are 3 % slower
// on an H200: 40.1 and 38.8 ms for 8192 x 4096 x 128256. For 16384 x 2048 it is 41.5 and 40.2 ms.
// One chunk is used when that takes no more memory than a chunk and the float32 sum.
HeadChunks plan_head_chunks(const HeadSize& size, bool on_gpu);

}  // namespace packtrain
