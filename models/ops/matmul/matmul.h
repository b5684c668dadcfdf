// GEMM:  out = scale left right + addend + bias
//
// Shapes are left [M, K], right [K, N], out and addend [M, N], and bias [N], which is added to each
// row. Products of bfloat16 give bfloat16 or float32, those of float32 give float32. The dtype of
// addend and bias is out's. Sums in float32 and rounds once. The exception is a bfloat16 addend on
// CUDA: cuBLAS's kernels add it to the rounded product, as two operators would. On average they
// lose an addend below half of the product's last bit.
//
// Each matrix has rows or columns of stride 1, so that w.t() needs no copy. out and addend have
// rows of stride 1. Deterministic for one algorithm. 2 M N K operations. CUDA uses cuBLASLt
// (algorithm_cache.h has how algorithms are chosen).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "models/block/operator_options.h"
#include "models/ops/matmul/fp8_scaling.h"

namespace packtrain {

// On CUDA allocated at a stream's first GEMM and kept. The size is what cuBLAS advises for Hopper.
constexpr std::int64_t kMatmulWorkspaceBytes = std::int64_t{32} << 20;

struct GemmTerms {
  at::Tensor addend = {};  // or undefined; may be `out` itself, which the product is then added to
  at::Tensor bias = {};    // or undefined
  double scale = 1;
};

// Throws Error(kInternal), which names shapes and dtypes, when they do not match.
void gemm_out(const at::Tensor& out, const at::Tensor& left, const at::Tensor& right,
              const GemmTerms& terms, const GemmTiming& timing);
// The same into a new tensor of left's dtype.
at::Tensor gemm(const at::Tensor& left, const at::Tensor& right, const GemmTerms& terms,
                const GemmTiming& timing);

// A matrix of 8-bit floats (models/ops/fp8).
struct Fp8Operand {
  at::Tensor codes;  // float8 e4m3fn or e5m2 [M, K], contiguous
  // float32 on the device, contiguous, 16-byte aligned: codes stand for code * their scale.
  //    kTensorWise        [2], of which the first one is the scale
  //    kBlockWise1x128    [num_fp8_blocks(K), M]
  //    kBlockWise128x128  [num_fp8_blocks(M), fp8_scale_stride(num_fp8_blocks(K))]
  at::Tensor scale;
  Fp8Scaling scaling = Fp8Scaling::kTensorWise;
};

struct Fp8Gemm {
  bool fast_accumulation = false;  // sums of fewer bits on Hopper
  bool sums_tokens = false;        // K is a number of tokens, otherwise M is
};

// out [M, N] = left right^T + addend + bias, for left [M, K] and right [N, K]. `out` is float32 or
// bfloat16. K and N are multiples of 16, and one operand at least is e4m3. With scales of blocks M
// is one as well, and one operand at least has kBlockWise1x128. The scale of `terms` is 1. Throws
// Error(kInternal) as gemm_out() does.
void fp8_gemm_out(const at::Tensor& out, const Fp8Operand& left, const Fp8Operand& right,
                  const GemmTerms& terms, const Fp8Gemm& options, const GemmTiming& timing);

// A timing that from now on takes at most this fraction of the time.
GemmTiming limited_gemm_timing(double share);
// GEMMs whose algorithm was timed in this process so far; 0 on the CPU.
std::int64_t num_timed_matmuls();

// On CUDA tensors. The functions above call these; no_cuda.cpp has them in a build without CUDA.
// gemm_out of checked, non-empty tensors on CUDA.
void gemm_cuda(const at::Tensor& out, const at::Tensor& left, const at::Tensor& right,
               const GemmTerms& terms, const GemmTiming& timing);
// fp8_gemm_out of checked, non-empty tensors on CUDA.
void fp8_gemm_cuda(const at::Tensor& out, const Fp8Operand& left, const Fp8Operand& right,
                   const GemmTerms& terms, const Fp8Gemm& options, const GemmTiming& timing);
// Seconds that this process has spent on timing so far.
double gemm_timing_seconds_cuda();

}  // namespace packtrain
