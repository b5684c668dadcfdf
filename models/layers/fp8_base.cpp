#include "models/layers/fp8_base.h"

#include <utility>

#include "models/ops/fp8/fp8.h"
#include "models/ops/fp8/fp8_linear.h"

namespace packtrain {

Fp8BaseOutput fp8_base_forward(OperatorContext& run, const Fp8Base& base, const Parameter* bias,
                               const at::Tensor& residual, const Fp8LoraForward* update) {
  const at::Tensor rows = run.get(base.x);
  const at::Tensor x_scale = make_fp8_scale(rows);
  Fp8Copies copies = fp8_cast(rows, x_scale, {.rows = true, .amax = run.amax(base.x)});
  const Fp8Operand x{std::move(copies.rows), x_scale};
  const Parameter& weight = run.parameter(base.weight);
  at::Tensor weight_scale = fp8_weight_scale(weight, rows);
  const GemmTiming& timing = run.options().gemm_timing;
  at::Tensor y =
      update != nullptr
          ? fp8_lora_linear_forward(x, weight, weight_scale, bias, *update, timing, residual)
          : fp8_linear_forward(x, weight, weight_scale, bias, timing, residual);
  return {std::move(y), std::move(weight_scale)};
}

at::Tensor fp8_base_backward_input(OperatorContext& run, const Fp8Base& base, Value y,
                                   const at::Tensor& weight_scale, const Fp8LoraBackward& update) {
  at::Tensor grad = run.gradient(y);
  const at::Tensor scale = make_fp8_scale(grad);
  Fp8Copies copies = fp8_cast(
      grad, scale, {.format = Fp8Format::kE5M2, .rows = true, .amax = run.gradient_amax(y)});
  run.set_gradient(y, {});
  grad.reset();
  return fp8_lora_linear_backward_input({std::move(copies.rows), scale}, run.parameter(base.weight),
                                        weight_scale, update, run.options().gemm_timing,
                                        run.gradient(base.x));
}

}  // namespace packtrain
