#include "models/ops/fp8/fp8_linear.h"

#include <ATen/ops/empty.h>

#include "models/ops/encoded_weight.h"
#include "models/ops/fp8/fp8.h"
#include "models/ops/fp8/fp8_weight.h"

namespace packtrain {

Fp8Operand fp8_weight_rows(const Parameter& weight, const at::Tensor& scale) {
  if (weight.fp8_codes.defined()) return {weight.fp8_codes, weight.fp8_scale};
  decode_weight(weight);
  const bool is_known = weight.fp8_scale.defined();
  return {fp8_cast(weight.value, scale, {.rows = true, .has_known_scale = is_known}).rows, scale};
}

// They have no padding: fp8_takes(). Between the passes a gathered weight has other memory, and so
// has the scale of its stored codes.
Fp8Operand fp8_weight_columns(const Parameter& weight, const at::Tensor& scale) {
  if (weight.fp8_codes.defined()) return {fp8_transpose(weight.fp8_codes), weight.fp8_scale};
  decode_weight(weight);
  return {fp8_cast(weight.value, scale, {.columns = true, .has_known_scale = true}).columns, scale};
}

bool fp8_takes(std::int64_t out, std::int64_t in) {
  return out > 0 && in > 0 && out % kFp8Alignment == 0 && in % kFp8Alignment == 0;
}

at::Tensor fp8_weight_scale(const Parameter& weight, const at::Tensor& x) {
  return weight.fp8_scale.defined() ? weight.fp8_scale : make_fp8_scale(x);
}

at::Tensor fp8_linear_forward(const Fp8Operand& x, const Parameter& weight,
                              const at::Tensor& weight_scale, const Parameter* bias,
                              const GemmTiming& timing, const at::Tensor& residual) {
  const Fp8Operand operand = fp8_weight_rows(weight, weight_scale);
  at::Tensor y = at::empty({x.codes.size(0), weight.value.size(0)}, weight.value.options());
  fp8_gemm_out(y, x, operand,
               {.addend = residual, .bias = bias != nullptr ? bias->value : at::Tensor()},
               {.fast_accumulation = true}, timing);
  return y;
}

at::Tensor fp8_linear_backward_input(const Fp8Operand& grad_output, const Parameter& weight,
                                     const at::Tensor& weight_scale, const GemmTiming& timing,
                                     const at::Tensor& sum) {
  const Fp8Operand operand = fp8_weight_columns(weight, weight_scale);
  at::Tensor dx =
      at::empty({grad_output.codes.size(0), weight.value.size(1)}, weight.value.options());
  fp8_gemm_out(dx, grad_output, operand, {.addend = sum}, {}, timing);
  return dx;
}

void fp8_linear_backward_weight(const Fp8Operand& grad_columns, const Fp8Operand& x_columns,
                                const Parameter& weight, const GemmTiming& timing) {
  if (!weight.grad.defined()) return;
  fp8_gemm_out(weight.grad, grad_columns, x_columns,
               {.addend = weight.accumulate ? weight.grad : at::Tensor()}, {.sums_tokens = true},
               timing);
}

}  // namespace packtrain
