// Symmetric products (BLAS: SYRK) of matrices x [count, rows, columns]:
//    out = scale x x^T + addend     or, transposed,     out = scale x^T x + addend
// out and the symmetric addend are [count, n, n]. The product of a symmetric x with itself is one.
//
// Contiguous tensors of one dtype, float32 or bfloat16. Sums in float32. In bfloat16 on Hopper our
// kernel computes the tiles on and below the diagonal, and writes each one twice. That is half of
// the 2 count n^2 k operations of a GEMM. It adds the addend before it rounds. Its result is
// symmetric to the bit. Other matrices take the GEMM of matmul.h, or libtorch's batched one, as do
// matrices whose tiles leave multiprocessors idle. Deterministic for one algorithm.
#pragma once

#include <ATen/core/Tensor.h>

#include "models/block/operator_options.h"

namespace packtrain {

struct SyrkTerms {
  bool transposed = false;
  double scale = 1;
  at::Tensor addend = {};  // or undefined
};

// Throws Error(kInternal), which names shapes and dtypes, when they do not match.
void syrk_out(const at::Tensor& out, const at::Tensor& x, const SyrkTerms& terms,
              const GemmTiming& timing);

// On CUDA tensors, checked and not empty. no_hopper.cpp has them in a build without the kernel.
bool has_syrk_cuda();
// True when the kernel takes them and has less to do than a GEMM.
bool syrk_takes(const at::Tensor& out, const at::Tensor& x, const SyrkTerms& terms);
// In bfloat16. n and the columns of x are multiples of 8, and so are the places of all tensors. A
// transposed x of several matrices has a multiple of 64 rows.
void syrk_cuda(const at::Tensor& out, const at::Tensor& x, const SyrkTerms& terms);

}  // namespace packtrain
