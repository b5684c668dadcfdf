// Grouped GEMMs (grouped_matmul.h) of 8-bit floats (models/ops/fp8):
//    out[a] = scale s[e] left[a] right[e]^T          a in group e
// The left operand has one scale, and each matrix of the right one has its own. In bfloat16 on
// Hopper this is one launch that reads the ends on the device. All its sums have the tensor cores'
// fast accumulation (fp8_linear.h). In other cases one GEMM after another runs, which waits for the
// ends. Deterministic. 2 A K N operations.
#pragma once

#include <ATen/core/Tensor.h>

#include "models/ops/matmul/matmul.h"

namespace packtrain {

// Casts of all matrices [E, N, K].
struct Fp8Matrices {
  at::Tensor codes;   // e4m3 [E, N, K], contiguous
  at::Tensor scales;  // float32 [E, 4], of which the first of each is the scale (make_fp8_scale)
};

// left: codes [A, K] e4m3 or e5m2. K and N are multiples of 16. Returns [A, N] of `dtype`, bfloat16
// or float32. Throws Error(kInternal), which names the shapes, when they do not match.
at::Tensor fp8_grouped_matmul(const Fp8Operand& left, const Fp8Matrices& right,
                              const at::Tensor& ends, at::ScalarType dtype,
                              const GemmTiming& timing);

// On CUDA tensors. The function above calls these; no_hopper.cpp has them in a build without
// sm_90a. True when this build and the current GPU have the kernel.
bool has_fp8_grouped_matmul_cuda();
// bfloat16, with at least one row.
void fp8_grouped_matmul_cuda(const at::Tensor& out, const Fp8Operand& left,
                             const Fp8Matrices& right, const at::Tensor& ends);

}  // namespace packtrain
