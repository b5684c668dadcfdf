#include "models/ops/syrk/syrk.h"

#include <c10/util/StringUtil.h>

#include "framework/core/error.h"
#include "models/ops/matmul/batched_gemm.h"

namespace packtrain {
namespace {

bool is_of(const at::Tensor& tensor, const at::Tensor& x, at::IntArrayRef sizes) {
  return tensor.sizes() == sizes && tensor.scalar_type() == x.scalar_type() &&
         tensor.device() == x.device() && tensor.is_contiguous();
}

void check_syrk(const at::Tensor& out, const at::Tensor& x, const SyrkTerms& terms) {
  const bool is_float = x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16;
  const std::int64_t n = x.dim() == 3 ? x.size(terms.transposed ? 2 : 1) : 0;
  const bool matches = x.dim() == 3 && is_float && x.is_contiguous() &&
                       is_of(out, x, {x.size(0), n, n}) &&
                       (!terms.addend.defined() || is_of(terms.addend, x, {x.size(0), n, n}));
  if (matches) return;
  const at::Tensor& addend = terms.addend;
  throw Error(
      ErrorCategory::kInternal,
      c10::str("syrk: got x ", x.toString(), " ", x.sizes(), terms.transposed ? ", transposed" : "",
               ", out ", out.toString(), " ", out.sizes(), ", addend ",
               addend.defined() ? c10::str(addend.toString(), " ", addend.sizes())
                                : std::string("nothing"),
               "; wanted contiguous float32 or bfloat16 [count, rows, columns], and "
               "[count, n, n] of that type"));
}

}  // namespace

void syrk_out(const at::Tensor& out, const at::Tensor& x, const SyrkTerms& terms,
              const GemmTiming& timing) {
  check_syrk(out, x, terms);
  if (out.numel() == 0) return;
  if (out.is_cuda() && x.numel() > 0 && syrk_takes(out, x, terms)) return syrk_cuda(out, x, terms);
  const at::Tensor other = x.transpose(1, 2);
  batched_gemm_out(out, terms.transposed ? other : x, terms.transposed ? x : other,
                   {.addend = terms.addend, .scale = terms.scale}, timing);
}

}  // namespace packtrain
