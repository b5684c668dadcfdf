// Arguments of the kernels from tensors, for lora_cuda.cpp and for benchmarks that vary them.
#pragma once

#include "models/ops/linear/lora_cuda.h"
#include "models/ops/linear/lora_gemm_launch.h"
#include "models/ops/linear/skinny_gemm_launch.h"

namespace packtrain {

// They keep no tensor alive. `out` has rows of stride 1.
LoraGemmArguments lora_gemm_forward_arguments(const at::Tensor& out,
                                              const LoraGemmOperands& operands,
                                              const LoraModules& modules,
                                              std::span<const Parameter* const> b);
LoraGemmArguments lora_gemm_backward_arguments(const at::Tensor& out,
                                               const LoraGemmOperands& operands,
                                               const Parameter& a);
// Without a plan and memory for partial sums. `low`: d(x A^T), or s.
SkinnyGemmArguments lora_gradients_arguments(const at::Tensor& low, const at::Tensor& grad_output,
                                             const at::Tensor& s, const LoraModules& modules,
                                             std::span<const Parameter* const> b);
SkinnyGemmArguments lora_low_rank_arguments(const at::Tensor& low, const at::Tensor& x,
                                            const Parameter& a, double scale);
SkinnyGemmArguments lora_a_gradient_arguments(const at::Tensor& grad_low_rank, const at::Tensor& x,
                                              const Parameter& a);
// Plans, allocates the partial sums and launches on the current stream of the tensor's device.
void run_skinny_gemm(SkinnyGemmArguments& arguments, const at::Tensor& on, int column_warps);

}  // namespace packtrain
