#include "models/ops/fp8/fp8_block_linear.h"

#include <ATen/ops/empty.h>

#include "models/ops/encoded_weight.h"
#include "models/ops/fp8/fp8_block.h"

namespace packtrain {
namespace {

// left right^T with the terms, without the rows that pad `left`. The product has them, and
// `terms.addend` does not. So it is added by the product where there are none.
at::Tensor product(const Fp8Operand& left, std::int64_t num_rows, const Fp8Operand& right,
                   const GemmTerms& terms, const at::TensorOptions& options,
                   const GemmTiming& timing) {
  const at::Tensor whole = at::empty({left.codes.size(0), right.codes.size(0)}, options);
  const bool is_padded = num_rows != left.codes.size(0);
  fp8_gemm_out(whole, left, right,
               {.addend = is_padded ? at::Tensor() : terms.addend, .bias = terms.bias}, {}, timing);
  at::Tensor out = whole.narrow(0, 0, num_rows);
  if (is_padded && terms.addend.defined()) out.add_(terms.addend);
  return out;
}

}  // namespace

at::Tensor fp8_block_linear_forward(const Fp8Operand& x, std::int64_t num_rows,
                                    const Parameter& weight, const Parameter* bias,
                                    const GemmTiming& timing, const at::Tensor& residual) {
  decode_weight(weight);
  return product(x, num_rows, fp8_block_cast(weight.value, /*transposed=*/false),
                 {.addend = residual, .bias = bias != nullptr ? bias->value : at::Tensor()},
                 weight.value.options(), timing);
}

at::Tensor fp8_block_linear_backward_input(const Fp8Operand& grad_output, std::int64_t num_rows,
                                           const Parameter& weight, const GemmTiming& timing,
                                           const at::Tensor& sum) {
  decode_weight(weight);
  return product(grad_output, num_rows, fp8_block_cast(weight.value, /*transposed=*/true),
                 {.addend = sum}, weight.value.options(), timing);
}

}  // namespace packtrain
