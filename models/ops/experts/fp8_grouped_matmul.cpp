#include "models/ops/experts/fp8_grouped_matmul.h"

#include <ATen/ops/empty.h>
#include <c10/util/StringUtil.h>

#include "framework/core/error.h"
#include "models/ops/experts/grouped_matmul.h"
#include "models/ops/fp8/fp8.h"

namespace packtrain {
namespace {

void check_operands(const Fp8Operand& left, const Fp8Matrices& right, const at::Tensor& ends) {
  const auto is_contiguous = [](const at::Tensor& codes, std::int64_t dim) {
    return codes.dim() == dim && codes.is_contiguous() && codes.size(-1) % kFp8Alignment == 0;
  };
  if (is_contiguous(left.codes, 2) && is_contiguous(right.codes, 3) &&
      left.codes.size(1) == right.codes.size(2) && right.codes.size(1) % kFp8Alignment == 0 &&
      right.codes.scalar_type() == at::kFloat8_e4m3fn && ends.size(0) == right.codes.size(0)) {
    return;
  }
  throw Error(ErrorCategory::kInternal,
              c10::str("fp8_grouped_matmul: got left ", left.codes.sizes(), ", right ",
                       right.codes.toString(), " ", right.codes.sizes(), ", ends ", ends.sizes(),
                       "; wanted [A, K], e4m3 [E, N, K] and [E], contiguous, K and N multiples of ",
                       kFp8Alignment));
}

}  // namespace

at::Tensor fp8_grouped_matmul(const Fp8Operand& left, const Fp8Matrices& right,
                              const at::Tensor& ends, at::ScalarType dtype,
                              const GemmTiming& timing) {
  check_operands(left, right, ends);
  const at::Tensor out =
      at::empty({left.codes.size(0), right.codes.size(1)}, left.scale.options().dtype(dtype));
  if (out.is_cuda() && dtype == at::kBFloat16 && has_fp8_grouped_matmul_cuda()) {
    if (out.size(0) > 0) fp8_grouped_matmul_cuda(out, left, right, ends);
    return out;
  }
  for_each_group(ends, [&](std::int64_t e, std::int64_t begin, std::int64_t num_rows) {
    fp8_gemm_out(out.narrow(0, begin, num_rows),
                 {left.codes.narrow(0, begin, num_rows), left.scale},
                 {right.codes.select(0, e), right.scales.select(0, e)}, {},
                 {.fast_accumulation = true}, timing);
  });
  return out;
}

}  // namespace packtrain
