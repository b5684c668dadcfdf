// Finds which rows of logits z [N, V] have a greedy label. A greedy label is the lowest id of those
// with the largest logit. Rows start at multiples of 16 bytes. A row whose label's logit is not a
// number is not greedy. On a GPU it reads a row up to the first tile that has a better id.
#pragma once

#include <ATen/core/Tensor.h>

namespace packtrain {

// `labels` int32 [N], each in 0 .. V-1. Writes `greedy`, bool [N]. Logits are float32 or bfloat16.
void greedy_labels(const at::Tensor& logits, const at::Tensor& labels, const at::Tensor& greedy);

// On CUDA tensors. The function above calls it; no_cuda.cpp has it in a build without CUDA.
void greedy_labels_cuda(const at::Tensor& logits, const at::Tensor& labels,
                        const at::Tensor& greedy);

}  // namespace packtrain
