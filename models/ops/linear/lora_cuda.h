// The kernels of lora_linear.h for Hopper. The functions there call these. no_hopper.cpp has them
// in a build without sm_90a.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

#include "models/block/block.h"
#include "models/ops/linear/lora_module.h"
#include "models/ops/matmul/matmul.h"

namespace packtrain {

// Operands of y = x W^T + ..., or of dx = g W + ....
struct LoraGemmOperands {
  at::Tensor left;         // x [T, K], or g [T, N]
  at::Tensor weight;       // [N, K]
  at::Tensor low;          // s, or d(x A^T) [T, R]
  at::Tensor bias = {};    // or undefined
  at::Tensor addend = {};  // or undefined
  // int32 [adapters + 1] where the rows of each of several adapters begin, or undefined
  at::Tensor row_begins = {};
};

// True when this build and the current GPU have the kernels.
bool has_lora_kernels();
// True when the kernels take all modules of a weight: at most 48, ranks up to 64 in steps of 8.
bool lora_kernels_take_ranks(const LoraModules& modules);
// True when the kernels take these. All are bfloat16 on CUDA. Rows are contiguous and start at
// multiples of 16 bytes, and factors have no gaps. At most 48 modules, ranks are multiples of 8.
bool lora_gemm_takes(const LoraGemmOperands& operands, const LoraModules& modules,
                     std::span<const at::Tensor> factors);
// The same; in addition ranks of 64 at most, and gradients of B that are contiguous.
bool lora_gradients_take(const at::Tensor& grad_output, const at::Tensor& s,
                         const LoraModules& modules, std::span<const Parameter* const> b);

// Operands of 8-bit floats: left [T, K], right [N, K].
struct Fp8LoraGemmOperands {
  Fp8Operand left;
  Fp8Operand right;
  at::Tensor low;              // bfloat16 [T, R]
  at::Tensor bias = {};        // or undefined
  at::Tensor addend = {};      // or undefined
  at::Tensor row_begins = {};  // as in LoraGemmOperands
};

// [columns, rank], for the columns of the result from `begin` on. The columns of `low` are those of
// the factors one after another.
struct LoraFactor {
  at::Tensor values;
  std::int64_t begin = 0;
  int adapter = 0;
};

// As lora_gemm_takes(), for at least 1,024 rows. Does not read `right`.
bool lora_fp8_gemm_takes(const Fp8LoraGemmOperands& operands,
                         const std::vector<LoraFactor>& factors);
// left right^T + bias + addend + the factors' parts: bfloat16 [T, N].
at::Tensor lora_fp8_gemm_cuda(const Fp8LoraGemmOperands& operands,
                              const std::vector<LoraFactor>& factors);

at::Tensor lora_gemm_forward_cuda(const LoraGemmOperands& operands, const LoraModules& modules,
                                  std::span<const Parameter* const> b);
// `modules`: read where the rows are of several adapters.
at::Tensor lora_gemm_backward_cuda(const LoraGemmOperands& operands, const Parameter& a,
                                   const LoraModules& modules = {});
// Returns d(x A^T) and writes dB. `row_begins` as in LoraGemmOperands.
at::Tensor lora_gradients_cuda(const at::Tensor& grad_output, const at::Tensor& s,
                               const LoraModules& modules, std::span<const Parameter* const> b,
                               const at::Tensor& row_begins = {});

}  // namespace packtrain
