// Magnitudes of the rows of a linear layer with a low-rank update (DoRA, arXiv 2402.09353):
//    n = ||W + scale B A|| of each row;  g = m / n
//    z = x W^T + the updates (lora_linear.h);  y = g z + b + r
//    dz = g dy;  dm = (sum over rows of dy z) / n
// Shapes are x [T, K], W [N, K], z and y [T, N], n and g [N], m [rows of its module]. All of x, W,
// z and y have one dtype, float32 or bfloat16. Norms and factors are float32. Magnitudes are
// float32 or have that dtype. Rows of W that no module has keep their values: n = g = 1.
//
// The norms are constants for all gradients (section 4.3 of the paper). With dropout x has a mask
// for each module in z, as in PEFT, and the rest of x keeps its product with W:
//    z = (mask x) W^T + the updates;  y = g z + (x - mask x) W^T + b + r
//
//    n^2 = ||W||^2 + 2 scale B . (W A^T) + scale^2 (B A A^T) . B, by row and in float32
// So W + scale B A never exists. There are 2 N K R operations and two reads of W, where a
// product with x has 2 T N K operations. The square of W is constant, but is computed each time. It
// would be one more buffer to keep and shard.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>

#include "models/block/block.h"
#include "models/ops/linear/lora_linear.h"
#include "models/ops/linear/lora_module.h"

namespace packtrain {

// All functions decode the weight where they read it (ops/encoded_weight.h).

// Returns n. A [R, K] and B of each module have the dtype of the weight. Squares are at least the
// smallest normal number, so that a row of zeros has a factor.
at::Tensor dora_norms(const Parameter& weight, const Parameter& a, const LoraModules& modules,
                      std::span<const Parameter* const> b, const GemmTiming& timing);
// Returns g. `magnitudes`: one for each module.
at::Tensor dora_factors(const at::Tensor& norms, const LoraModules& modules,
                        std::span<const Parameter* const> magnitudes);

// Returns y. `bias` may be null, `residual` undefined. Elements that must move: 2 T N, 3 T N with a
// residual.
at::Tensor dora_scale_forward(const at::Tensor& z, const at::Tensor& factors, const Parameter* bias,
                              const at::Tensor& residual);
// Returns the sums over rows of dy z, float32 [N], and writes dz to the memory of z. Elements that
// must move: 3 T N.
at::Tensor dora_scale_backward_in_place(const at::Tensor& grad_output, const at::Tensor& z,
                                        const at::Tensor& factors);
// Writes dm.
void dora_backward_magnitudes(const at::Tensor& sums, const at::Tensor& norms,
                              const LoraModules& modules,
                              std::span<const Parameter* const> magnitudes);

// With dropout. Returns z.
at::Tensor dora_dropped_forward(const at::Tensor& x, const Parameter& weight, const at::Tensor& s,
                                const LoraModules& modules, std::span<const Parameter* const> b,
                                const LoraDropout& dropout, const GemmTiming& timing);
// The gradient of x in z, plus `sum` (or undefined). `grad_low_rank` is d(x A^T).
at::Tensor dora_dropped_backward_input(const at::Tensor& grad_z, const Parameter& weight,
                                       const at::Tensor& grad_low_rank, const Parameter& a,
                                       const LoraModules& modules, const LoraDropout& dropout,
                                       const GemmTiming& timing, const at::Tensor& sum);
// Adds (x - mask x) W^T to y.
void dora_add_rest(const at::Tensor& y, const at::Tensor& x, const Parameter& weight,
                   const LoraModules& modules, const LoraDropout& dropout,
                   const GemmTiming& timing);
// The gradient of x in that product, plus `sum` (or undefined).
at::Tensor dora_rest_backward_input(const at::Tensor& grad_output, const Parameter& weight,
                                    const LoraModules& modules, const LoraDropout& dropout,
                                    const GemmTiming& timing, const at::Tensor& sum);

// On CUDA tensors. The functions above call these; no_cuda.cpp has them in a build without CUDA.
// z is contiguous and has rows.
at::Tensor dora_scale_forward_cuda(const at::Tensor& z, const at::Tensor& factors,
                                   const Parameter* bias, const at::Tensor& residual);
at::Tensor dora_scale_backward_cuda(const at::Tensor& grad_output, const at::Tensor& z,
                                    const at::Tensor& factors);

}  // namespace packtrain
