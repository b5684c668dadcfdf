// A linear layer with its low-rank update (lora.h), each pass in as few reads as the device allows:
//    s[:, m] = scale_m x A_m^T
//    y = x W^T + b + r + the updates s[:, m] B_m^T of the rows of m
//    d(x A^T)[:, m] = scale_m g[:, rows of m] B_m;  dB_m = g[:, rows of m]^T s[:, m]
//    dx = g W + d(x A^T) A + sum
//    dA = d(x A^T)^T x
// With dropout x of the first and the last line, and of d(x A^T) A, has a mask for each module.
//
// On Hopper in bfloat16 y and dx are one launch each, and the third line is two. A rank of 16 adds
// 0.4 % to a product of depth 4,096. As a product of its own, an update reads and writes all of y,
// which takes as long as 2 to 23 % of that product:
//  - y and dx (lora_gemm.cu): the main loop runs over the depth and then over the ranks. All sums
//    are float32 and are rounded once. A tile of y has stages only for the modules of its columns.
//  - d(x A^T) with dB (lora_gradients.cu): g is read once for both.
// Elsewhere the products run one after another (linear.h, lora.h). Deterministic.
//
// Several adapters may be trained together. `modules` then has those of all. Each adapter has rows
// of its own (AdapterRows). s and d(x A^T) are zero in the rows of other adapters. The kernels
// leave out what is zero, so a row has the products of its adapter alone. That is the grouped
// product of Punica (arXiv 2310.18547) and LoRAFusion (arXiv 2510.00206), without sorting or
// padding. Rows that are not finite do not reach the gradients of other adapters.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>

#include "models/block/adapter_rows.h"
#include "models/block/block.h"
#include "models/ops/linear/lora_module.h"

namespace packtrain {

// Dropout of x in the products with A. Each module has a mask of its own, which its name decides.
struct LoraDropout {
  at::Tensor row_seeds = {};  // int32 [T] (models/ops/dropout)
  double probability = 0;     // 0: none
};

// x with the mask of the module, which its name decides.
at::Tensor lora_dropped(const at::Tensor& x, const LoraModule& module, const LoraDropout& dropout);
// Returns s [T, R].
at::Tensor lora_low_rank(const at::Tensor& x, const Parameter& a, const LoraModules& modules,
                         const LoraDropout& dropout, const GemmTiming& timing);
// Writes dA.
void lora_backward_a(const at::Tensor& grad_low_rank, const at::Tensor& x, const Parameter& a,
                     const LoraModules& modules, const LoraDropout& dropout,
                     const GemmTiming& timing);
// Returns y. `bias` may be null, `residual` undefined.
at::Tensor lora_linear_forward(const at::Tensor& x, const Parameter& weight, const Parameter* bias,
                               const at::Tensor& s, const LoraModules& modules,
                               std::span<const Parameter* const> b, const GemmTiming& timing,
                               const at::Tensor& residual = {}, const AdapterRows& rows = {});
// Returns d(x A^T) [T, R] and writes dB.
at::Tensor lora_linear_backward_low_rank(const at::Tensor& grad_output, const at::Tensor& s,
                                         const LoraModules& modules,
                                         std::span<const Parameter* const> b,
                                         const GemmTiming& timing, const AdapterRows& rows = {});
// Returns dx. `sum` (another gradient of x) may be undefined.
at::Tensor lora_linear_backward_input(const at::Tensor& grad_output, const Parameter& weight,
                                      const at::Tensor& grad_low_rank, const Parameter& a,
                                      const LoraModules& modules, const LoraDropout& dropout,
                                      const GemmTiming& timing, const at::Tensor& sum = {},
                                      const AdapterRows& rows = {});
// The part of dx that A gives: d(x A^T) A, plus `sum`.
at::Tensor lora_backward_x(const at::Tensor& grad_low_rank, const Parameter& a,
                           const LoraModules& modules, const LoraDropout& dropout,
                           const GemmTiming& timing, const at::Tensor& sum);
// Adds that part to `dx` in place.
void lora_add_backward_x(const at::Tensor& grad_low_rank, const Parameter& a,
                         const LoraModules& modules, const LoraDropout& dropout,
                         const GemmTiming& timing, const at::Tensor& dx);

}  // namespace packtrain
