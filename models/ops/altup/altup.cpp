#include "models/ops/altup/altup.h"

#include <ATen/ops/addcmul.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <utility>

#include "models/ops/altup/altup_launch.h"
#include "models/ops/altup/magnitude_launch.h"
#include "models/ops/gradient.h"
#include "models/ops/linear/linear.h"

namespace packtrain {
namespace {

// Rows [T, C H] as [T, C, H].
at::Tensor by_copy(const at::Tensor& rows, const AltUpShape& shape) {
  return rows.view({rows.size(0), shape.num_copies, shape.hidden});
}

// The weights, float32 and clipped.
at::Tensor clipped(const AltUpCoefficients& coefficients) {
  const at::Tensor weight = coefficients.weight.value.to(at::kFloat);
  const double clip = coefficients.clip;
  return clip > 0 ? weight.clamp(-clip, clip) : weight;
}

// [T, C] of modalities to [T, outputs].
at::Tensor coefficients_of(const at::Tensor& modalities, const AltUpCoefficients& coefficients) {
  return at::mm(modalities, clipped(coefficients).t());
}

// L as matrices [T, C, C] in the dtype of rows.
at::Tensor mixing_matrices(const at::Tensor& modalities, const AltUpCoefficients& coefficients,
                           const AltUpShape& shape, at::ScalarType dtype) {
  const std::int64_t copies = shape.num_copies;
  return coefficients_of(modalities, coefficients)
      .view({modalities.size(0), copies, copies})
      .to(dtype);
}

// 1 + K [T, C] in the dtype of rows.
at::Tensor correction_factors(const at::Tensor& modalities, const AltUpCoefficients& coefficients,
                              at::ScalarType dtype) {
  return coefficients_of(modalities, coefficients).add_(1.0).to(dtype);
}

// True: the kernels take these rows.
bool has_kernels(const at::Tensor& rows, const AltUpShape& shape) {
  return rows.is_cuda() && shape.num_copies <= kAltUpMostCopies;
}

// p_j = x_j + sum over i of m_ji x_i.
at::Tensor mix(const at::Tensor& rows, const at::Tensor& mixing, const AltUpShape& shape) {
  if (has_kernels(rows, shape)) return altup_mix_cuda(rows, mixing, shape);
  const at::Tensor copies = by_copy(rows, shape);
  return at::baddbmm(copies, mixing, copies).view(rows.sizes());
}

AltUpRowGradients mix_backward(const at::Tensor& grad, const at::Tensor& rows,
                               const at::Tensor& mixing, const AltUpShape& shape) {
  if (has_kernels(rows, shape)) return altup_mix_backward_cuda(grad, rows, mixing, shape);
  const at::Tensor copies = by_copy(rows, shape);
  const at::Tensor of_copies = by_copy(grad, shape);
  at::Tensor of_mixing = at::bmm(of_copies, copies.transpose(1, 2))
                             .view({rows.size(0), shape.num_copies * shape.num_copies})
                             .to(at::kFloat);
  return {at::baddbmm(of_copies, mixing.transpose(1, 2), of_copies).view(rows.sizes()),
          std::move(of_mixing)};
}

// a - p_active [T, H].
at::Tensor innovation_of(const at::Tensor& predictions, const at::Tensor& activated,
                         const AltUpShape& shape) {
  return at::sub(activated, by_copy(predictions, shape).select(1, shape.active));
}

// y_j = p_j + f_j (a - p_active).
at::Tensor update(const at::Tensor& predictions, const at::Tensor& activated,
                  const at::Tensor& factors, const AltUpShape& shape) {
  if (has_kernels(predictions, shape)) {
    return altup_update_cuda(predictions, activated, factors, shape);
  }
  const at::Tensor innovation = innovation_of(predictions, activated, shape);
  return at::addcmul(by_copy(predictions, shape), factors.unsqueeze(2), innovation.unsqueeze(1))
      .view(predictions.sizes());
}

AltUpRowGradients update_backward_(const at::Tensor& grad, const at::Tensor& predictions,
                                   const at::Tensor& activated, const at::Tensor& factors,
                                   const AltUpShape& shape) {
  if (has_kernels(predictions, shape)) {
    return altup_update_backward_cuda_(grad, predictions, activated, factors, shape);
  }
  const at::Tensor of_copies = by_copy(grad, shape);
  const at::Tensor innovation = innovation_of(predictions, activated, shape);
  at::Tensor of_factors = at::bmm(of_copies, innovation.unsqueeze(2)).squeeze(2).to(at::kFloat);
  at::Tensor of_activated = at::bmm(factors.unsqueeze(1), of_copies).squeeze(1);
  of_copies.select(1, shape.active).sub_(of_activated);
  return {std::move(of_activated), std::move(of_factors)};
}

at::Tensor mean_square(const at::Tensor& rows) {
  return at::mul(rows, rows).mean(at::IntArrayRef{1}, /*keepdim=*/true);
}

// The factors of match_magnitude(), float32 [T, 1].
struct Magnitudes {
  at::Tensor target;  // sqrt(mean(x^2))
  at::Tensor own;     // sqrt(max(mean(p^2), least))
  at::Tensor passes;  // where the gradient of `own` reaches p
};

Magnitudes magnitudes_of(const at::Tensor& p, const at::Tensor& target) {
  const at::Tensor own = mean_square(p);
  return {mean_square(target).sqrt_(), own.clamp_min(kLeastSquareMagnitude).sqrt_(),
          own.gt(kLeastSquareMagnitude)};
}

}  // namespace

at::Tensor altup_copy(const at::Tensor& rows, const AltUpShape& shape, std::int64_t index) {
  return by_copy(rows, shape).select(1, index).clone(at::MemoryFormat::Contiguous);
}

at::Tensor altup_modalities(const at::Tensor& x, const AltUpRouter& router) {
  const at::Tensor normed = rms_norm_forward(x, router.norm, router.options).y;
  const at::Tensor routed = linear_forward(normed, router.weight, nullptr, router.timing);
  return at::tanh(at::mul(routed.to(at::kFloat), 1.0 / static_cast<double>(x.size(1))));
}

at::Tensor altup_modalities_backward(const at::Tensor& grad, const at::Tensor& x,
                                     const at::Tensor& modalities, const AltUpRouter& router) {
  const RmsNormOutput normed = rms_norm_forward(x, router.norm, router.options);
  const at::Tensor slope = at::mul(modalities, modalities).neg_().add_(1.0);
  const at::Tensor routed =
      slope.mul_(grad).mul_(1.0 / static_cast<double>(x.size(1))).to(x.scalar_type());
  linear_backward_weight(routed, normed.y, router.weight, nullptr, router.timing);
  const at::Tensor of_normed = linear_backward_input(routed, router.weight, router.timing);
  return rms_norm_backward(of_normed, x, normed.inverse_rms, router.norm, router.options);
}

at::Tensor altup_predict(const at::Tensor& rows, const at::Tensor& modalities,
                         const AltUpCoefficients& coefficients, const AltUpShape& shape) {
  return mix(rows, mixing_matrices(modalities, coefficients, shape, rows.scalar_type()), shape);
}

AltUpPredictGradients altup_predict_backward(const at::Tensor& grad, const at::Tensor& rows,
                                             const at::Tensor& modalities,
                                             const AltUpCoefficients& coefficients,
                                             const AltUpShape& shape) {
  const at::Tensor mixing = mixing_matrices(modalities, coefficients, shape, rows.scalar_type());
  AltUpRowGradients grads = mix_backward(grad, rows, mixing, shape);
  write_gradient(coefficients.weight, at::mm(grads.coefficients.t(), modalities));
  return {std::move(grads.rows), at::mm(grads.coefficients, clipped(coefficients))};
}

at::Tensor altup_correct(const at::Tensor& predictions, const at::Tensor& activated,
                         const at::Tensor& modalities, const AltUpCoefficients& coefficients,
                         const AltUpShape& shape) {
  return update(predictions, activated,
                correction_factors(modalities, coefficients, predictions.scalar_type()), shape);
}

AltUpCorrectGradients altup_correct_backward_(const at::Tensor& grad, const at::Tensor& predictions,
                                              const at::Tensor& activated,
                                              const at::Tensor& modalities,
                                              const AltUpCoefficients& coefficients,
                                              const AltUpShape& shape) {
  const at::Tensor factors =
      correction_factors(modalities, coefficients, predictions.scalar_type());
  AltUpRowGradients grads = update_backward_(grad, predictions, activated, factors, shape);
  at::Tensor of_weight = at::mm(grads.coefficients.t(), modalities);
  if (coefficients.clip > 0) {
    of_weight.mul_(coefficients.weight.value.to(at::kFloat).abs().le(coefficients.clip));
  }
  write_gradient(coefficients.weight, of_weight);
  return {std::move(grads.rows), at::mm(grads.coefficients, clipped(coefficients))};
}

at::Tensor match_magnitude(const at::Tensor& p, const at::Tensor& target) {
  if (p.is_cuda()) return match_magnitude_cuda(p, target);
  const at::Tensor exact = p.to(at::kFloat);
  const Magnitudes magnitudes = magnitudes_of(exact, target.to(at::kFloat));
  return at::mul(exact, magnitudes.target.div(magnitudes.own)).to(p.scalar_type());
}

MagnitudeGradients match_magnitude_backward(const at::Tensor& grad, const at::Tensor& p,
                                            const at::Tensor& target) {
  if (p.is_cuda()) return match_magnitude_backward_cuda(grad, p, target);
  const at::Tensor exact = p.to(at::kFloat);
  const at::Tensor x = target.to(at::kFloat);
  const at::Tensor g = grad.to(at::kFloat);
  const auto [of_target, own, passes] = magnitudes_of(exact, x);
  const at::Tensor along = at::mul(g, exact).mean(at::IntArrayRef{1}, /*keepdim=*/true);
  const at::Tensor ratio = of_target.div(own);
  const at::Tensor inward = along.mul(ratio).div_(own).div_(own).mul_(passes);
  at::Tensor dp = at::mul(g, ratio).sub_(at::mul(exact, inward)).to(p.scalar_type());
  const at::Tensor outward = along.div(own).div_(of_target);
  return {std::move(dp), at::mul(x, at::where(of_target.gt(0), outward, 0.0))};
}

at::Tensor column_products(const at::Tensor& a, const at::Tensor& b) {
  at::Tensor sums = at::zeros({a.size(1)}, a.options().dtype(at::kFloat));
  for_row_blocks(a.size(0), [&](std::int64_t begin, std::int64_t size) {
    const at::Tensor exact = a.narrow(0, begin, size).to(at::kFloat);
    sums.add_(at::mul(exact, b.narrow(0, begin, size)).sum(at::IntArrayRef{0}));
  });
  return sums;
}

}  // namespace packtrain
