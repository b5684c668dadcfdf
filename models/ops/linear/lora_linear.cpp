#include "models/ops/linear/lora_linear.h"

#include <algorithm>
#include <vector>

#include "models/ops/linear/linear.h"
#include "models/ops/linear/lora.h"
#include "models/ops/linear/lora_cuda.h"
#include "models/ops/matmul/matmul.h"

namespace packtrain {
namespace {

// Below this many rows a product has too few tiles for a GPU, and the library's divide its depth.
constexpr std::int64_t kMinKernelRows = 1024;

bool have_one_scale(const LoraModules& modules) {
  return std::ranges::all_of(
      modules, [&](const LoraModule& module) { return module.scale == modules.front().scale; });
}

std::vector<at::Tensor> factor_values(std::span<const Parameter* const> parameters) {
  std::vector<at::Tensor> values;
  for (const Parameter* parameter : parameters) values.push_back(parameter->value);
  return values;
}

bool updates_in_one_launch(const LoraGemmOperands& operands, const LoraModules& modules,
                           std::span<const at::Tensor> factors) {
  return operands.left.size(0) >= kMinKernelRows && lora_gemm_takes(operands, modules, factors) &&
         has_lora_kernels();
}

}  // namespace

at::Tensor lora_low_rank(const at::Tensor& x, const Parameter& a, const LoraModules& modules,
                         const GemmTiming& timing) {
  if (have_one_scale(modules)) {
    return gemm(x, a.value.t(), {.scale = modules.front().scale}, timing);
  }
  at::Tensor s = gemm(x, a.value.t(), {}, timing);
  scale_modules(s, modules);
  return s;
}

at::Tensor lora_linear_forward(const at::Tensor& x, const Parameter& weight, const Parameter* bias,
                               const at::Tensor& s, const LoraModules& modules,
                               std::span<const Parameter* const> b, const GemmTiming& timing,
                               const at::Tensor& residual) {
  const LoraGemmOperands operands{x, weight.value, s, bias != nullptr ? bias->value : at::Tensor(),
                                  residual};
  if (updates_in_one_launch(operands, modules, factor_values(b))) {
    return lora_gemm_forward_cuda(operands, modules, b);
  }
  at::Tensor y = linear_forward(x, weight, bias, timing, residual);
  lora_forward(y, s, modules, b, timing);
  return y;
}

at::Tensor lora_linear_backward_low_rank(const at::Tensor& grad_output, const at::Tensor& s,
                                         const LoraModules& modules,
                                         std::span<const Parameter* const> b,
                                         const GemmTiming& timing) {
  if (lora_gradients_take(grad_output, s, modules, b) && has_lora_kernels()) {
    return lora_gradients_cuda(grad_output, s, modules, b);
  }
  at::Tensor ds = lora_backward_input(grad_output, modules, b, timing);
  scale_modules(ds, modules);
  lora_backward_weight(grad_output, s, modules, b, timing);
  return ds;
}

at::Tensor lora_linear_backward_input(const at::Tensor& grad_output, const Parameter& weight,
                                      const at::Tensor& grad_low_rank, const Parameter& a,
                                      const GemmTiming& timing, const at::Tensor& sum) {
  const LoraGemmOperands operands{grad_output, weight.value, grad_low_rank, {}, sum};
  if (updates_in_one_launch(operands, {}, std::vector{a.value})) {
    return lora_gemm_backward_cuda(operands, a);
  }
  const at::Tensor dx = linear_backward_input(grad_output, weight, timing, sum);
  gemm_out(dx, grad_low_rank, a.value, {.addend = dx}, timing);
  return dx;
}

}  // namespace packtrain
