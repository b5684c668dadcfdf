// The low-rank update of a linear layer (LoRA, arXiv 2106.09685), for the modules m of its weight:
//    s[:, m] = scale_m x A_m^T;  y[:, rows of m] += s[:, m] B_m^T
//    ds[:, m] = g[:, rows of m] B_m;  dB_m = g[:, rows of m]^T s[:, m]
//    dx = d(x A^T) A,  dA = d(x A^T)^T x,  d(x A^T)[:, m] = scale_m ds[:, m]
// Shapes are x [T, K], y and g [T, N], A [R, K], s [T, R] and B_m [rows of m, rank of m]. R is the
// sum of the ranks. All have one dtype, float32 or bfloat16; the gradients of A and B may be
// float32. The products with A are those of a linear layer (linear.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <span>

#include "models/block/block.h"
#include "models/ops/linear/lora_module.h"

namespace packtrain {

// Multiplications with an addition that lora_forward() does.
std::int64_t lora_multiply_adds(std::int64_t num_rows, const LoraModules& modules);
// Multiplies the columns of each module by its scale, in place.
void scale_modules(const at::Tensor& s, const LoraModules& modules);
// The products with A where each module drops elements of x by a mask of its own. s and its
// gradient are without the scale.
struct LoraDropout {
  at::Tensor row_seeds;  // int32 [T]
  double probability = 0;
};
at::Tensor dropped_forward(const at::Tensor& x, const Parameter& a, const LoraModules& modules,
                           const LoraDropout& dropout, const GemmTiming& timing);
at::Tensor dropped_backward_input(const at::Tensor& grad, const Parameter& a,
                                  const LoraModules& modules, const LoraDropout& dropout,
                                  const GemmTiming& timing);
void dropped_backward_weight(const at::Tensor& grad, const at::Tensor& x, const Parameter& a,
                             const LoraModules& modules, const LoraDropout& dropout,
                             const GemmTiming& timing);
// Adds the update to `y`. `b`: one for each module.
void lora_forward(const at::Tensor& y, const at::Tensor& s, const LoraModules& modules,
                  std::span<const Parameter* const> b, const GemmTiming& timing);
// Returns ds [T, R].
at::Tensor lora_backward_input(const at::Tensor& grad_output, const LoraModules& modules,
                               std::span<const Parameter* const> b, const GemmTiming& timing);
// Writes dB of each module.
void lora_backward_weight(const at::Tensor& grad_output, const at::Tensor& s,
                          const LoraModules& modules, std::span<const Parameter* const> b,
                          const GemmTiming& timing);

}  // namespace packtrain
