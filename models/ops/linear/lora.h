// The low-rank update of a linear layer (LoRA, arXiv 2106.09685), for the modules m of its weight:
//    s[:, m] = scale_m x A_m^T;  y[:, rows of m] += s[:, m] B_m^T
//    ds[:, m] = g[:, rows of m] B_m;  dB_m = g[:, rows of m]^T s[:, m]
// Shapes are x [T, K], y and g [T, N], A [R, K], s [T, R] and B_m [rows of m, rank of m]. R is the
// sum of the ranks. All have one dtype, float32 or bfloat16; the gradients of A and B may be
// float32. lora_linear.h has the products with A.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <span>

#include "models/block/adapter_rows.h"
#include "models/block/block.h"
#include "models/ops/linear/lora_module.h"

namespace packtrain {

// Multiplications with an addition that lora_forward() does.
std::int64_t lora_multiply_adds(std::int64_t num_rows, const LoraModules& modules);
// The scale of all modules. Nothing when they differ.
std::optional<double> common_scale(const LoraModules& modules);
// Multiplies the columns of each module by its scale, in place. With several adapters, columns of a
// module become zero in the rows of the others.
void scale_modules(const at::Tensor& s, const LoraModules& modules, const AdapterRows& rows = {});
// Adds the update to `y`. `b`: one for each module.
void lora_forward(const at::Tensor& y, const at::Tensor& s, const LoraModules& modules,
                  std::span<const Parameter* const> b, const GemmTiming& timing);
// Returns ds [T, R].
at::Tensor lora_backward_input(const at::Tensor& grad_output, const LoraModules& modules,
                               std::span<const Parameter* const> b, const GemmTiming& timing);
// Writes dB of each module. With several adapters, sums over the rows of the module's adapter
// alone: gradients of other rows may not be finite.
void lora_backward_weight(const at::Tensor& grad_output, const at::Tensor& s,
                          const LoraModules& modules, std::span<const Parameter* const> b,
                          const GemmTiming& timing, const AdapterRows& rows = {});

}  // namespace packtrain
