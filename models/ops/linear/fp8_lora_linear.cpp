#include "models/ops/linear/fp8_lora_linear.h"

#include <cstddef>
#include <vector>

#include "models/ops/fp8/fp8_linear.h"
#include "models/ops/linear/lora.h"
#include "models/ops/linear/lora_cuda.h"

namespace packtrain {
namespace {

// The matrices B as the kernel reads them.
std::vector<LoraFactor> factors_of(const Fp8LoraForward& update) {
  std::vector<LoraFactor> factors;
  for (std::size_t m = 0; m < update.modules.size(); ++m) {
    const LoraModule& module = update.modules[m];
    factors.push_back({update.b[m]->value, module.begin, module.adapter});
  }
  return factors;
}

// The matrices A, transposed, of each adapter.
std::vector<LoraFactor> factors_of(const Fp8LoraBackward& update) {
  std::vector<LoraFactor> factors;
  std::int64_t first = 0;
  for (auto module = update.modules.begin(); module != update.modules.end();) {
    const int adapter = module->adapter;
    std::int64_t rank = 0;
    for (; module != update.modules.end() && module->adapter == adapter; ++module) {
      rank += module->rank;
    }
    factors.push_back({update.a.value.narrow(0, first, rank).t().contiguous(), 0, adapter});
    first += rank;
  }
  return factors;
}

}  // namespace

at::Tensor fp8_lora_linear_forward(const Fp8Operand& x, const Parameter& weight,
                                   const at::Tensor& weight_scale, const Parameter* bias,
                                   const Fp8LoraForward& update, const GemmTiming& timing,
                                   const at::Tensor& residual) {
  const at::Tensor of_bias = bias != nullptr ? bias->value : at::Tensor();
  Fp8LoraGemmOperands operands{x, {}, update.s, of_bias, residual, update.rows.begins};
  if (lora_fp8_gemm_takes(operands, factors_of(update)) && has_lora_kernels()) {
    operands.right = fp8_weight_rows(weight, weight_scale);
    return lora_fp8_gemm_cuda(operands, factors_of(update));
  }
  at::Tensor y = fp8_linear_forward(x, weight, weight_scale, bias, timing, residual);
  lora_forward(y, update.s, update.modules, update.b, timing);
  return y;
}

at::Tensor fp8_lora_linear_backward_input(const Fp8Operand& grad_output, const Parameter& weight,
                                          const at::Tensor& weight_scale,
                                          const Fp8LoraBackward& update, const GemmTiming& timing,
                                          const at::Tensor& sum) {
  if (update.modules.empty()) {
    return fp8_linear_backward_input(grad_output, weight, weight_scale, timing, sum);
  }
  Fp8LoraGemmOperands operands{grad_output, {}, update.grad_low_rank, {}, sum, update.rows.begins};
  if (update.dropout.probability == 0 && grad_output.codes.is_cuda() && has_lora_kernels()) {
    const std::vector<LoraFactor> factors = factors_of(update);
    if (lora_fp8_gemm_takes(operands, factors)) {
      operands.right = fp8_weight_columns(weight, weight_scale);
      return lora_fp8_gemm_cuda(operands, factors);
    }
  }
  const at::Tensor dx = fp8_linear_backward_input(grad_output, weight, weight_scale, timing, sum);
  lora_add_backward_x(update.grad_low_rank, update.a, update.modules, update.dropout, timing, dx);
  return dx;
}

}  // namespace packtrain
