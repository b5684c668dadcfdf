// Norms of queries and keys before rotary positions, for the kinds that qk_norm.h does not have:
//    full         one RMSNorm (rms_norm.h) over all query heads together, and one over all key
//                 heads; weights [heads D] (OLMo 2)
//    head layer   layer norm of each head, weights [heads, D], no bias (StableLM 2):
//                 n = (x - mean(x)) / sqrt(mean((x - mean(x))^2) + epsilon),  y = n w
// qkv [T, heads + 2 kv, D] is contiguous, float32 or bfloat16. Computes in float32 and rounds once.
// Values are copied.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "models/ops/qk_norm/qk_norm.h"

namespace packtrain {

struct RowQkNormOutput {
  at::Tensor qkv;
  std::vector<at::Tensor> statistics;  // float32, for backward
};

RowQkNormOutput full_qk_norm_forward(const at::Tensor& qkv, const QkNorm& norm);
RowQkNormOutput head_layer_norm_forward(const at::Tensor& qkv, const QkNorm& norm);

// Write the gradients of both weights. Replace `grad` [T, heads + 2 kv, D], contiguous, the
// gradient of the outputs, by that of qkv.
void full_qk_norm_backward_(const at::Tensor& grad, const at::Tensor& qkv,
                            const std::vector<at::Tensor>& statistics, const QkNorm& norm);
void head_layer_norm_backward_(const at::Tensor& grad, const at::Tensor& qkv,
                               const std::vector<at::Tensor>& statistics, const QkNorm& norm);

}  // namespace packtrain
