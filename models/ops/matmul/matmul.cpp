#include "models/ops/matmul/matmul.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/repeat_interleave.h>
#include <c10/util/StringUtil.h>

#include <chrono>
#include <cstdint>
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

void check_terms(const at::Tensor& out, const GemmTerms& terms, const auto& require) {
  const at::ScalarType output = out.scalar_type();
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
  check_terms(out, terms, require);
  require(has_unit_rows(out) && (has_unit_rows(left) || has_unit_rows(left.t())) &&
              (has_unit_rows(right) || has_unit_rows(right.t())),
          "rows of stride 1 (left and right: rows or columns)");
}

bool has_matching_scale(const Fp8Operand& operand) {
  const std::int64_t rows = operand.codes.size(0);
  const std::int64_t blocks = num_fp8_blocks(operand.codes.size(1));
  switch (operand.scaling) {
    case Fp8Scaling::kTensorWise:
      return operand.scale.numel() > 0;
    case Fp8Scaling::kBlockWise1x128:
      return is_matrix_of(operand.scale, blocks, rows);
    default:
      return is_matrix_of(operand.scale, num_fp8_blocks(rows), fp8_scale_stride(blocks));
  }
}

// cuBLASLt supports these, and no others (its manual, "128-element 1D and 128x128 2D block scaling
// for FP8 data types"). It wants multiples of 4 rows, and kernels 8.
bool have_common_scaling(const Fp8Operand& left, const Fp8Operand& right) {
  constexpr std::int64_t kWholeRows = 16;
  const bool left_whole = left.scaling == Fp8Scaling::kTensorWise;
  if (left_whole || right.scaling == Fp8Scaling::kTensorWise) return left.scaling == right.scaling;
  return left.codes.size(0) % kWholeRows == 0 && (left.scaling == Fp8Scaling::kBlockWise1x128 ||
                                                  right.scaling == Fp8Scaling::kBlockWise1x128);
}

// cuBLASLt supports no other alignment of scales.
bool is_aligned(const at::Tensor& scale) {
  constexpr std::uintptr_t kBytes = 16;
  return reinterpret_cast<std::uintptr_t>(scale.const_data_ptr()) % kBytes == 0;
}

bool is_fp8(const Fp8Operand& operand) {
  const at::Tensor& codes = operand.codes;
  return codes.dim() == 2 && codes.is_contiguous() &&
         (codes.scalar_type() == at::kFloat8_e4m3fn || codes.scalar_type() == at::kFloat8_e5m2) &&
         operand.scale.scalar_type() == at::kFloat && operand.scale.is_contiguous() &&
         is_aligned(operand.scale) && has_matching_scale(operand);
}

void check_fp8(const at::Tensor& out, const Fp8Operand& left, const Fp8Operand& right,
               const GemmTerms& terms) {
  const auto require = [&](bool condition, const char* wanted) {
    if (!condition) reject_operands(wanted, out, left.codes, right.codes, terms);
  };
  require(is_fp8(left) && is_fp8(right) &&
              (left.codes.scalar_type() == at::kFloat8_e4m3fn ||
               right.codes.scalar_type() == at::kFloat8_e4m3fn),
          "contiguous matrices of 8-bit floats with their 16-byte aligned scales, one of e4m3");
  require(have_common_scaling(left, right),
          "two scales of tensors, or scales of blocks, 1 x 128 of one operand at least, and M a "
          "multiple of 16");
  require(left.codes.size(1) == right.codes.size(1) &&
              is_matrix_of(out, left.codes.size(0), right.codes.size(0)),
          "[M, K] x [N, K]^T -> [M, N]");
  constexpr std::int64_t kWhole = 16;
  require(left.codes.size(1) % kWhole == 0 && right.codes.size(0) % kWhole == 0,
          "K and N that are multiples of 16");
  const bool is_float = out.scalar_type() == at::kFloat || out.scalar_type() == at::kBFloat16;
  require(is_float && has_unit_rows(out) && terms.scale == 1,
          "an output of float32 or bfloat16 with rows of stride 1, and no scale");
  check_terms(out, terms, require);
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

void write_sum(const at::Tensor& out, at::Tensor& sum, const GemmTerms& terms) {
  if (terms.addend.defined()) sum.add_(terms.addend);
  if (terms.bias.defined()) sum.add_(terms.bias);
  out.copy_(sum);
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
  write_sum(out, sum, terms);
}

// The numbers that codes with scales of blocks stand for, in float32.
at::Tensor decoded_blocks(const Fp8Operand& operand) {
  const at::Tensor codes = operand.codes.to(at::kFloat);
  at::Tensor scales = operand.scale;  // [rows or blocks of rows, blocks]
  if (operand.scaling == Fp8Scaling::kBlockWise1x128) {
    scales = scales.t();
  } else {
    scales = scales.repeat_interleave(kFp8BlockSize, 0).narrow(0, 0, codes.size(0));
  }
  return codes.mul(scales.repeat_interleave(kFp8BlockSize, 1).narrow(1, 0, codes.size(1)));
}

// The scales are powers of two, so that they round nothing.
void fp8_gemm_cpu(const at::Tensor& out, const Fp8Operand& left, const Fp8Operand& right,
                  const GemmTerms& terms) {
  if (left.scaling != Fp8Scaling::kTensorWise) {
    at::Tensor of_blocks = at::mm(decoded_blocks(left), decoded_blocks(right).t());
    write_sum(out, of_blocks, terms);
    return;
  }
  at::Tensor sum = at::mm(left.codes.to(at::kFloat), right.codes.to(at::kFloat).t());
  sum.mul_(left.scale[0]).mul_(right.scale[0]);
  write_sum(out, sum, terms);
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

void fp8_gemm_out(const at::Tensor& out, const Fp8Operand& left, const Fp8Operand& right,
                  const GemmTerms& terms, const Fp8Gemm& options, const GemmTiming& timing) {
  check_fp8(out, left, right, terms);
  if (left.codes.numel() == 0 || right.codes.numel() == 0) {
    without_product(out, terms);
  } else if (out.is_cuda()) {
    fp8_gemm_cuda(out, left, right, terms, options, timing);
  } else {
    fp8_gemm_cpu(out, left, right, terms);
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
