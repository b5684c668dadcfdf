// About U V^T of X = U S V^T, by Newton-Schulz iterations with a polynomial of degree 5 (Jordan et
// al., https://kellerjordan.github.io/posts/muon).
//    X = X / max(|X|, 1e-7), |X| the Frobenius norm
//    five times: A = X X^T; X = a X + (b A + c A A) X, (a, b, c) = (3.4445, -4.7750, 2.0315)
// Singular values end between about 0.7 and 1.2. A tall matrix takes A = X^T X. In bfloat16 on
// CUDA, float32 on the CPU.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "models/block/operator_options.h"

namespace packtrain {

inline constexpr int kNewtonSchulzSteps = 5;
inline constexpr double kNewtonSchulzA = 3.4445;
inline constexpr double kNewtonSchulzB = -4.7750;
inline constexpr double kNewtonSchulzC = 2.0315;
inline constexpr double kNewtonSchulzEpsilon = 1e-7;

// Replaces each matrix of x [count, rows, columns] by `scale` times its result. x: contiguous,
// bfloat16 or float32, which is the dtype of all products. Small matrices are multiplied in
// batches. Throws Error(kInternal) for another tensor. Deterministic for one choice of algorithms.
void newton_schulz(const at::Tensor& x, double scale, const GemmTiming& timing);

// The dtype of matrices that ranks send each other: that of the products.
inline at::ScalarType exchanged_type(bool on_gpu) {
  return on_gpu ? at::kBFloat16 : at::kFloat;
}

// Bytes that newton_schulz() allocates and frees.
std::int64_t newton_schulz_bytes(std::int64_t count, std::int64_t rows, std::int64_t columns,
                                 at::ScalarType type);

}  // namespace packtrain
