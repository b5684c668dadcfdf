// Samples a label for each row of logits z [N, V] from the distribution softmax(s_n):
//    s = c tanh(z / c), or z without soft cap;  u_nv uniform in (0, 1)
//    label_n = argmax_v (s_nv - log e_nv),  e_nv = -log(1 - u_nv)
// -log e is a standard Gumbel variable (Gumbel-max trick; Maddison, Tarlow, Minka, "A* sampling",
// NeurIPS 2014, section 2). Of equal values the lowest id counts. The 32 bits of u_nv are of
// Philox, with row_seeds[n] and v as the counter. So a row has the same label in any chunk, batch
// and rank that computes the same logits.
// Deterministic. Reads N V elements. CPU and GPU have the same bits; their logarithms differ in the
// last places, so that labels of nearly equal values may differ.
#pragma once

#include <ATen/core/Tensor.h>

#include "models/ops/linear_cross_entropy/cross_entropy.h"

namespace packtrain {

// `logits` is float32 or bfloat16. On a GPU its rows start at multiples of 16 bytes. `row_seeds` is
// int64 [N]. Returns int32 [N], each in 0 .. V-1. A row without a number above minus infinity has
// label 0.
at::Tensor sample_labels(const at::Tensor& logits, const at::Tensor& row_seeds,
                         const CrossEntropyOptions& options);

// On CUDA tensors. The function above calls it; no_cuda.cpp has it in a build without CUDA.
// `labels` is int32 [N], written.
void sample_labels_cuda(const at::Tensor& logits, const at::Tensor& row_seeds,
                        const CrossEntropyOptions& options, const at::Tensor& labels);

}  // namespace packtrain
