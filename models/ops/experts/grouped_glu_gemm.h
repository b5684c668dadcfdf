// The gated activation between the two projections of each expert, fused with the GEMM before it.
// Backward fuses it with the GEMM that computes dy, the input gradient of the second projection.
// For row a in group e (grouped_matmul.h):
//    x[a] = W[e] r[a], [gate | up];  y[a] = f(gate) u(up)                  (activation.h)
//    dy[a] = V[e]^T g[a], g the gradient of V[e] y[a];  dx[a] from dy[a] and x[a]
// A plain activation has x [A, I] and y = f(x). float32 or bfloat16, sums in float32. In bfloat16
// on Hopper, forward and backward are one launch each (grouped_glu_gemm_tiles.cuh). This needs a
// gated activation. The width of rows must be a multiple of 64, and that of y of 8. dy is then
// neither stored nor rounded. In other cases GEMM and activation run one after another.
// Deterministic. 2 A K N operations each.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "models/block/operator_options.h"
#include "models/ops/activation/activation.h"

namespace packtrain {

struct GroupedGluGemm {
  at::Tensor x;  // [A, 2 I]
  at::Tensor y;  // [A, I]
};

// rows [A, K], weight [E, 2 I, K].
GroupedGluGemm grouped_glu_gemm_forward(const at::Tensor& rows, const at::Tensor& weight,
                                        const at::Tensor& ends, const Activation& activation,
                                        const GemmTiming& timing);

struct GroupedGluGemmGradients {
  at::Tensor x;     // dx [A, 2 I]
  at::Tensor y;     // y, recomputed [A, I]
  at::Tensor dots;  // float32 [A, P]: the sum over P is dy . y
};

// grad [A, N], weight [E, N, I], x of forward.
GroupedGluGemmGradients grouped_glu_gemm_backward(const at::Tensor& grad, const at::Tensor& weight,
                                                  const at::Tensor& x, const at::Tensor& ends,
                                                  const Activation& activation,
                                                  const GemmTiming& timing);

// The part of backward after dy [A, I], which it materializes. Also writes the amax of dx to `amax`
// (activation.h).
GroupedGluGemmGradients grouped_glu_gradients(const at::Tensor& dy, const at::Tensor& x,
                                              const Activation& activation,
                                              const at::Tensor& amax = {});

// True when backward materializes dy. Used by the memory estimate, which assumes Hopper for a GPU.
bool grouped_glu_gemm_materializes_grad(bool on_gpu, at::ScalarType dtype,
                                        const Activation& activation, std::int64_t width,
                                        std::int64_t inner);

// On CUDA tensors. The functions above call these; no_cuda.cpp has them in a build without CUDA.
// True when this build and the current GPU have the kernels.
bool has_grouped_glu_gemm_cuda();

// The functions of grouped_glu_gemm.h for bfloat16 on CUDA with at least one row.
GroupedGluGemm grouped_glu_gemm_forward_cuda(const at::Tensor& rows, const at::Tensor& weight,
                                             const at::Tensor& ends, const Activation& activation);
GroupedGluGemmGradients grouped_glu_gemm_backward_cuda(const at::Tensor& grad,
                                                       const at::Tensor& weight,
                                                       const at::Tensor& x, const at::Tensor& ends,
                                                       const Activation& activation);

}  // namespace packtrain
