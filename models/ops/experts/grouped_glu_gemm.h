// The gated activation between the two projections of each expert, with the matrix product before
// it and, on the way back, the one behind it. Of row a in group e (grouped_matmul.h):
//   x[a] = W[e] r[a], [gate | up];  y[a] = f(gate) u(up)                  (activation.h)
//   d y[a] = V[e]^T g[a], g the gradient of V[e] y[a];  d x[a] from d y[a] and x[a]
// A plain activation has x [A, I] and y = f(x). float32 or bfloat16, sums in float32.
// In bfloat16 on Hopper GPUs one launch each way (grouped_glu_gemm_tiles.cuh), of gated activations
// whose rows have a multiple of 64 elements and y of 8: d y never lies in memory then, nor is it
// rounded. Elsewhere products and activations one after another. Deterministic. 2 A K N operations
// each.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "models/ops/activation/activation.h"

namespace packtrain {

struct GroupedGluGemm {
  at::Tensor x;  // [A, 2 I]
  at::Tensor y;  // [A, I]
};

// rows [A, K], weight [E, 2 I, K].
GroupedGluGemm grouped_glu_gemm_forward(const at::Tensor& rows, const at::Tensor& weight,
                                        const at::Tensor& ends, const Activation& activation);

struct GroupedGluGemmGradients {
  at::Tensor x;     // d x [A, 2 I]
  at::Tensor y;     // y again [A, I]
  at::Tensor dots;  // float32 [A, P]: sums over P are d y . y
};

// grad [A, N], weight [E, N, I], x as of the forward.
GroupedGluGemmGradients grouped_glu_gemm_backward(const at::Tensor& grad, const at::Tensor& weight,
                                                  const at::Tensor& x, const at::Tensor& ends,
                                                  const Activation& activation);

// Whether d y lies in memory on the way back, for memory plans: on a GPU that of a Hopper.
bool grouped_glu_gemm_materializes_grad(bool on_gpu, at::ScalarType dtype,
                                        const Activation& activation, std::int64_t width,
                                        std::int64_t inner);

}  // namespace packtrain
