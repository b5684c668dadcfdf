#include "models/ops/fp8/fp8_linear.h"

#include <ATen/ops/empty.h>

#include "models/ops/fp8/fp8.h"
#include "models/ops/nf4/nf4.h"

namespace packtrain {

bool fp8_takes(std::int64_t out, std::int64_t in) {
  return out > 0 && in > 0 && out % kFp8Alignment == 0 && in % kFp8Alignment == 0;
}

at::Tensor fp8_weight_scale(const Parameter& weight, const at::Tensor& x) {
  return weight.fp8_scale.defined() ? weight.fp8_scale : make_fp8_scale(x);
}

at::Tensor fp8_linear_forward(const Fp8Operand& x, const Parameter& weight,
                              const at::Tensor& weight_scale, const Parameter* bias,
                              const GemmTiming& timing, const at::Tensor& residual) {
  decode_weight(weight);
  at::Tensor y = at::empty({x.codes.size(0), weight.value.size(0)}, weight.value.options());
  const Fp8Copies copies = fp8_cast(weight.value, weight_scale,
                                    {.rows = true, .has_known_scale = weight.fp8_scale.defined()});
  fp8_gemm_out(y, x, {copies.rows, weight_scale},
               {.addend = residual, .bias = bias != nullptr ? bias->value : at::Tensor()},
               {.fast_accumulation = true}, timing);
  return y;
}

at::Tensor fp8_linear_backward_input(const Fp8Operand& grad_output, const Parameter& weight,
                                     const at::Tensor& weight_scale, const GemmTiming& timing,
                                     const at::Tensor& sum) {
  decode_weight(weight);
  const Fp8Copies copies =
      fp8_cast(weight.value, weight_scale, {.columns = true, .has_known_scale = true});
  at::Tensor dx =
      at::empty({grad_output.codes.size(0), weight.value.size(1)}, weight.value.options());
  // The columns of a weight have no padding: fp8_takes().
  fp8_gemm_out(dx, grad_output, {copies.columns, weight_scale}, {.addend = sum}, {}, timing);
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
