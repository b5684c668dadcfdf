#include "models/ops/matmul/matmul.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <c10/util/StringUtil.h>

#include <chrono>
#include <string>

#include "framework/core/error.h"

namespace packtrain {
namespace {

std::string text(const at::Tensor& x) {
  return x.defined() ? c10::str(x.toString(), " ", x.sizes(), " of strides ", x.strides())
                     : "nothing";
}

[[noreturn]] void reject_operands(const char* wanted, const at::Tensor& out, const at::Tensor& left,
                                  const at::Tensor& right, const GemmTerms& terms) {
  throw Error(ErrorCategory::kInternal, "matmul: got left " + text(left) + ", right " +
                                            text(right) + ", out " + text(out) + ", addend " +
                                            text(terms.addend) + ", bias " + text(terms.bias) +
                                            "; wanted " + wanted);
}

bool is_matrix_of(const at::Tensor& x, std::int64_t rows, std::int64_t columns) {
  return x.dim() == 2 && x.size(0) == rows && x.size(1) == columns;
}

bool has_unit_rows(const at::Tensor& x) {
  return (x.size(1) <= 1 || x.stride(1) == 1) && (x.size(0) <= 1 || x.stride(0) >= x.size(1));
}

void check(const at::Tensor& out, const at::Tensor& left, const at::Tensor& right,
           const GemmTerms& terms) {
  const auto require = [&](bool condition, const char* wanted) {
    if (!condition) reject_operands(wanted, out, left, right, terms);
  };
  const bool matrices = left.dim() == 2 && right.dim() == 2 && left.size(1) == right.size(0);
  require(matrices && is_matrix_of(out, left.size(0), right.size(1)), "[M, K] x [K, N] -> [M, N]");
  const at::ScalarType input = left.scalar_type();
  const at::ScalarType output = out.scalar_type();
  require(right.scalar_type() == input &&
              (output == input || (input == at::kBFloat16 && output == at::kFloat)) &&
              (input == at::kBFloat16 || input == at::kFloat),
          "bfloat16 x bfloat16 -> bfloat16 or float32, or float32 x float32 -> float32");
  if (terms.addend.defined()) {
    require(is_matrix_of(terms.addend, out.size(0), out.size(1)) &&
                terms.addend.scalar_type() == output && has_unit_rows(terms.addend),
            "an addend of out's shape and dtype, rows of stride 1");
  }
  if (terms.bias.defined()) {
    require(terms.bias.dim() == 1 && terms.bias.size(0) == out.size(1) &&
                terms.bias.scalar_type() == output && terms.bias.is_contiguous(),
            "a contiguous bias [N] of out's dtype");
  }
  require(has_unit_rows(out) && (has_unit_rows(left) || has_unit_rows(left.t())) &&
              (has_unit_rows(right) || has_unit_rows(right.t())),
          "rows of stride 1 (left and right: rows or columns)");
}

// Handles an empty output or an empty sum.
void without_product(const at::Tensor& out, const GemmTerms& terms) {
  if (!terms.addend.defined()) {
    out.zero_();
  } else if (!terms.addend.is_same(out)) {
    out.copy_(terms.addend);
  }
  if (terms.bias.defined()) out.add_(terms.bias);
}

// Computes in float32 and rounds once. GEMMs of one dtype without a bias or a scale use libtorch's
// mm and addmm directly.
void gemm_cpu(const at::Tensor& out, const at::Tensor& left, const at::Tensor& right,
              const GemmTerms& terms) {
  at::Tensor target = out;
  if (out.scalar_type() == left.scalar_type() && !terms.bias.defined() && terms.scale == 1) {
    if (terms.addend.defined()) {
      at::addmm_out(target, terms.addend, left, right);
    } else {
      at::mm_out(target, left, right);
    }
    return;
  }
  at::Tensor sum = at::mm(left.to(at::kFloat), right.to(at::kFloat));
  if (terms.scale != 1) sum.mul_(terms.scale);
  if (terms.addend.defined()) sum.add_(terms.addend);
  if (terms.bias.defined()) sum.add_(terms.bias);
  target.copy_(sum);
}

}  // namespace

void gemm_out(const at::Tensor& out, const at::Tensor& left, const at::Tensor& right,
              const GemmTerms& terms, const GemmTiming& timing) {
  check(out, left, right, terms);
  if (left.numel() == 0 || right.numel() == 0) {
    without_product(out, terms);
  } else if (out.is_cuda()) {
    gemm_cuda(out, left, right, terms, timing);
  } else {
    gemm_cpu(out, left, right, terms);
  }
}

at::Tensor gemm(const at::Tensor& left, const at::Tensor& right, const GemmTerms& terms,
                const GemmTiming& timing) {
  const at::Tensor out = at::empty({left.size(0), right.size(1)}, left.options());
  gemm_out(out, left, right, terms, timing);
  return out;
}

GemmTiming limited_gemm_timing(double share) {
  return {.enabled = true,
          .share = share,
          .since = std::chrono::steady_clock::now(),
          .seconds_before = gemm_timing_seconds_cuda()};
}

}  // namespace packtrain
