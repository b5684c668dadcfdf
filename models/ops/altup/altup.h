// Alternating updates (Baykal et al., arXiv 2301.13310) as Gemma 3n computes them. A row has C
// copies of the hidden state, x_0 to x_(C-1), one after another: [T, C H]. A layer computes on the
// active copy alone, and small products with C columns update the others.
//    modalities  m = tanh(W n / H), n = RMSNorm(x of the active copy)
//    predict     p_j = x_j + sum over i of L_(j C + i) x_i, L = P m
//    correct     y_j = p_j + (1 + K_j) (a - p_active), K = Q m'
// a is the active copy after the layer, and m' has the modalities of a. P is [C C, C] and Q [C, C].
// Both are clipped to [-clip, clip], as in the training of transformers. The gradient of P passes
// the clip, because transformers changes P itself. The gradient of Q does not.
//    match       y = p sqrt(mean(x^2)) / sqrt(max(mean(p^2), 1e-5))
// gives the rows p the magnitude of x. It makes the copies before the first layer, and their mean
// after the last one.
//
// Rows are float32 or bfloat16, and modalities are float32 [T, C]. Coefficients are computed in
// float32 and rounded to the dtype of rows before they multiply these. Deterministic. The CPU has
// libtorch's operators. So has a GPU for more than eight copies, which no published model has.
// Kernels add up in float32 and round once. Elements that must move: 2 T C H in predict, 3 T C H in
// its backward, 2 T C H + T H in correct. The backward of correct moves T C H + 4 T H.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>

#include "models/block/block.h"
#include "models/ops/rms_norm/rms_norm.h"

namespace packtrain {

struct AltUpShape {
  std::int64_t num_copies = 0;  // C
  std::int64_t hidden = 0;      // H
  std::int64_t active = 0;
};

// A contiguous copy of x_index [T, H] of rows [T, C H].
at::Tensor altup_copy(const at::Tensor& rows, const AltUpShape& shape, std::int64_t index);

struct AltUpRouter {
  const Parameter& norm;    // [H]
  const Parameter& weight;  // W [C, H]
  RmsNormOptions options;
  const GemmTiming& timing;
};

// m, float32 [T, C], of the active copy x [T, H].
at::Tensor altup_modalities(const at::Tensor& x, const AltUpRouter& router);
// Writes the gradients of the router. Returns dx.
at::Tensor altup_modalities_backward(const at::Tensor& grad, const at::Tensor& x,
                                     const at::Tensor& modalities, const AltUpRouter& router);

// The weights of coefficients, P or Q.
struct AltUpCoefficients {
  const Parameter& weight;
  double clip = 0;  // 0: none
};

// p [T, C H].
at::Tensor altup_predict(const at::Tensor& rows, const at::Tensor& modalities,
                         const AltUpCoefficients& coefficients, const AltUpShape& shape);

struct AltUpPredictGradients {
  at::Tensor rows;        // [T, C H], no other value has this tensor
  at::Tensor modalities;  // float32 [T, C]
};

// Writes the gradient of P.
AltUpPredictGradients altup_predict_backward(const at::Tensor& grad, const at::Tensor& rows,
                                             const at::Tensor& modalities,
                                             const AltUpCoefficients& coefficients,
                                             const AltUpShape& shape);

// y [T, C H]. `activated` is a [T, H].
at::Tensor altup_correct(const at::Tensor& predictions, const at::Tensor& activated,
                         const at::Tensor& modalities, const AltUpCoefficients& coefficients,
                         const AltUpShape& shape);

struct AltUpCorrectGradients {
  at::Tensor activated;   // [T, H]
  at::Tensor modalities;  // float32 [T, C]
};

// Writes the gradient of Q. Replaces `grad`, the gradient of y, by that of the predictions.
AltUpCorrectGradients altup_correct_backward_(const at::Tensor& grad, const at::Tensor& predictions,
                                              const at::Tensor& activated,
                                              const at::Tensor& modalities,
                                              const AltUpCoefficients& coefficients,
                                              const AltUpShape& shape);

// Gradients of rows, and of the coefficients that multiply them: float32 [T, C C] of mixing, or
// [T, C] of factors.
struct AltUpRowGradients {
  at::Tensor rows;
  at::Tensor coefficients;
};

// On CUDA tensors, with `mixing` L [T, C, C] and `factors` 1 + K [T, C] in the dtype of rows. The
// functions above call these; no_cuda_mixers.cpp has them in a build without CUDA. They throw
// Error(kInternal) for more than eight copies.
at::Tensor altup_mix_cuda(const at::Tensor& rows, const at::Tensor& mixing,
                          const AltUpShape& shape);
AltUpRowGradients altup_mix_backward_cuda(const at::Tensor& grad, const at::Tensor& rows,
                                          const at::Tensor& mixing, const AltUpShape& shape);
at::Tensor altup_update_cuda(const at::Tensor& predictions, const at::Tensor& activated,
                             const at::Tensor& factors, const AltUpShape& shape);
// Returns the gradient of `activated` as rows. Replaces `grad`, which must be contiguous.
AltUpRowGradients altup_update_backward_cuda_(const at::Tensor& grad, const at::Tensor& predictions,
                                              const at::Tensor& activated,
                                              const at::Tensor& factors, const AltUpShape& shape);

// Calls work(begin, size) for blocks of rows. Float32 values of a block are small next to those of
// all rows.
template <class Work>
void for_row_blocks(std::int64_t num_rows, const Work& work) {
  constexpr std::int64_t kBlockRows = 2048;
  for (std::int64_t begin = 0; begin < num_rows; begin += kBlockRows) {
    work(begin, std::min(kBlockRows, num_rows - begin));
  }
}

// p [T, H] with the magnitude of `target` [T, H]. On the CPU both functions have float32 copies of
// their rows. `grad` may have gaps between rows.
at::Tensor match_magnitude(const at::Tensor& p, const at::Tensor& target);

struct MagnitudeGradients {
  at::Tensor p;
  at::Tensor target;  // float32; 0 in rows of zeros
};

MagnitudeGradients match_magnitude_backward(const at::Tensor& grad, const at::Tensor& p,
                                            const at::Tensor& target);

// On CUDA tensors, as above.
at::Tensor match_magnitude_cuda(const at::Tensor& p, const at::Tensor& target);
MagnitudeGradients match_magnitude_backward_cuda(const at::Tensor& grad, const at::Tensor& p,
                                                 const at::Tensor& target);

// Sums over rows of a b, float32 [H]: the gradient of a scale of columns.
at::Tensor column_products(const at::Tensor& a, const at::Tensor& b);

}  // namespace packtrain
