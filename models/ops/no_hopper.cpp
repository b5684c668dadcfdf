// Replaces the kernels of Hopper in a build without sm_90a.
#include "models/ops/attention/short/launch.h"
#include "models/ops/cuda/not_built.h"
#include "models/ops/experts/fp8_grouped_matmul.h"
#include "models/ops/experts/grouped_glu_gemm.h"
#include "models/ops/experts/grouped_wgrad_cuda.h"
#include "models/ops/linear/lora_cuda.h"
#include "models/ops/nf4/nf4_gemm_cuda.h"
#include "models/ops/syrk/syrk.h"

namespace packtrain {

bool has_fp8_grouped_matmul_cuda() {
  return false;
}

void fp8_grouped_matmul_cuda(const at::Tensor& /*out*/, const Fp8Operand& /*left*/,
                             const Fp8Matrices& /*right*/, const at::Tensor& /*ends*/) {
  throw_cuda_not_built("fp8_grouped_matmul");
}

bool has_grouped_glu_gemm_cuda() {
  return false;
}

GroupedGluGemm grouped_glu_gemm_forward_cuda(const at::Tensor& /*rows*/,
                                             const at::Tensor& /*weight*/,
                                             const at::Tensor& /*ends*/,
                                             const Activation& /*activation*/) {
  throw_cuda_not_built("grouped_glu_gemm_forward");
}

GroupedGluGemmGradients grouped_glu_gemm_backward_cuda(const at::Tensor& /*grad*/,
                                                       const at::Tensor& /*weight*/,
                                                       const at::Tensor& /*x*/,
                                                       const at::Tensor& /*ends*/,
                                                       const Activation& /*activation*/) {
  throw_cuda_not_built("grouped_glu_gemm_backward");
}

bool has_grouped_wgrad_cuda() {
  return false;
}

void grouped_weight_gradient_cuda(const Parameter& /*weight*/, const at::Tensor& /*left*/,
                                  const at::Tensor& /*right*/, const at::Tensor& /*ends*/) {
  throw_cuda_not_built("grouped_weight_gradient");
}

bool has_lora_kernels() {
  return false;
}

bool lora_kernels_take_ranks(const LoraModules& /*modules*/) {
  return false;
}

bool lora_gemm_takes(const LoraGemmOperands& /*operands*/, const LoraModules& /*modules*/,
                     std::span<const at::Tensor> /*factors*/) {
  return false;
}

bool lora_gradients_take(const at::Tensor& /*grad_output*/, const at::Tensor& /*s*/,
                         const LoraModules& /*modules*/, std::span<const Parameter* const> /*b*/) {
  return false;
}

at::Tensor lora_gemm_forward_cuda(const LoraGemmOperands& /*operands*/,
                                  const LoraModules& /*modules*/,
                                  std::span<const Parameter* const> /*b*/) {
  throw_cuda_not_built("lora_gemm_forward");
}

at::Tensor lora_gemm_backward_cuda(const LoraGemmOperands& /*operands*/, const Parameter& /*a*/,
                                   const LoraModules& /*modules*/) {
  throw_cuda_not_built("lora_gemm_backward");
}

bool lora_fp8_gemm_takes(const Fp8LoraGemmOperands& /*operands*/,
                         const std::vector<LoraFactor>& /*factors*/) {
  return false;
}

at::Tensor lora_fp8_gemm_cuda(const Fp8LoraGemmOperands& /*operands*/,
                              const std::vector<LoraFactor>& /*factors*/) {
  throw_cuda_not_built("lora_fp8_gemm");
}

at::Tensor lora_gradients_cuda(const at::Tensor& /*grad_output*/, const at::Tensor& /*s*/,
                               const LoraModules& /*modules*/,
                               std::span<const Parameter* const> /*b*/,
                               const at::Tensor& /*row_begins*/) {
  throw_cuda_not_built("lora_gradients");
}

bool nf4_gemm_takes(const at::Tensor& /*left*/, const Parameter& /*weight*/,
                    const Parameter* /*bias*/, const at::Tensor& /*addend*/) {
  return false;
}

at::Tensor nf4_gemm_forward_cuda(const at::Tensor& /*x*/, const Parameter& /*weight*/,
                                 const Parameter* /*bias*/, const at::Tensor& /*addend*/) {
  throw_cuda_not_built("nf4_gemm_forward");
}

at::Tensor nf4_gemm_backward_cuda(const at::Tensor& /*grad_output*/, const Parameter& /*weight*/,
                                  const at::Tensor& /*addend*/) {
  throw_cuda_not_built("nf4_gemm_backward");
}

bool has_syrk_cuda() {
  return false;
}

bool syrk_takes(const at::Tensor& /*out*/, const at::Tensor& /*x*/, const SyrkTerms& /*terms*/) {
  return false;
}

void syrk_cuda(const at::Tensor& /*out*/, const at::Tensor& /*x*/, const SyrkTerms& /*terms*/) {
  throw_cuda_not_built("syrk");
}

void launch_short_attention_backward_hopper(const ShortAttentionArguments& /*arguments*/,
                                            void* /*stream*/) {
  throw_cuda_not_built("attention");
}

}  // namespace packtrain
