#include "models/ops/matmul/batched_gemm.h"

#include <ATen/ops/baddbmm.h>
#include <ATen/ops/bmm.h>

namespace packtrain {

void batched_gemm_out(const at::Tensor& out, const at::Tensor& left, const at::Tensor& right,
                      const GemmTerms& terms, const GemmTiming& timing) {
  at::Tensor to = out;
  if (out.size(0) == 1) {
    const at::Tensor addend = terms.addend.defined() ? terms.addend[0] : at::Tensor();
    gemm_out(out[0], left[0], right[0], {.addend = addend, .scale = terms.scale}, timing);
  } else if (terms.addend.defined()) {
    at::baddbmm_out(to, terms.addend, left, right, /*beta=*/1, terms.scale);
  } else {
    at::bmm_out(to, left, right).mul_(terms.scale);
  }
}

}  // namespace packtrain
