// General matrix product:  out = left right + addend + bias
// left [M, K], right [K, N], out and addend [M, N], bias [N] added to every row. bfloat16 x
// bfloat16 to bfloat16 or float32, float32 x float32 to float32; addend and bias have out's dtype.
// Sums in float32 and one rounding; but on CUDA a bfloat16 addend is added to the rounded product,
// as by two operators: cuBLAS's kernels do so, and on average lose an addend below half of the
// product's last bit. Every matrix has rows or columns of stride 1, so that w.t() is read as it
// lies; out and addend have rows of stride 1. Deterministic for one algorithm. 2 M N K operations.
// On CUDA through cuBLASLt (algorithm_cache.h has how algorithms are chosen).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace packtrain {

// CUDA: taken at a stream's first product and kept; what cuBLAS advises on Hopper.
constexpr std::int64_t kMatmulWorkspaceBytes = std::int64_t{32} << 20;

struct GemmTerms {
  at::Tensor addend = {};  // or undefined; may be `out` itself: the product is added to it
  at::Tensor bias = {};    // or undefined
};

// Throws Error(kInternal) naming shapes and dtypes where they do not fit each other.
void gemm_out(const at::Tensor& out, const at::Tensor& left, const at::Tensor& right,
              const GemmTerms& terms = {});
// The same into a new tensor of left's dtype.
at::Tensor gemm(const at::Tensor& left, const at::Tensor& right, const GemmTerms& terms = {});

// Process-wide: whether CUDA algorithms are chosen by timing the candidates on first use (the
// default), or by cuBLASLt's heuristics alone, so that two runs choose alike and have equal bits.
// Forgets earlier choices.
void set_matmul_timing(bool timing);
// Process-wide: from now on timing takes at most this share of the time; 1, the default, is no
// limit. What may not be timed yet runs by the choice for the nearest number of tokens, or without
// one by the heuristics' first.
void limit_matmul_timing(double share);
// Products whose algorithm was found by timing in this process so far; 0 on the CPU.
std::int64_t num_timed_matmuls();

}  // namespace packtrain
