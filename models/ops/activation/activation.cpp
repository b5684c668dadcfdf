#include "models/ops/activation/activation.h"

#include <ATen/ops/add.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/clamp_max.h>
#include <ATen/ops/clamp_min.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/erf.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/le.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/sigmoid.h>

#include <cmath>
#include <numbers>

namespace packtrain {
namespace {

struct ValueAndSlope {
  at::Tensor value;
  at::Tensor slope;
};

// s = logistic(p(z)) for a polynomial p with slope p', so (z s)' = s + z s (1 - s) p'.
ValueAndSlope logistic_unit(const at::Tensor& z, const at::Tensor& s, const at::Tensor& p_slope) {
  at::Tensor value = at::mul(z, s);
  at::Tensor slope = at::add(at::mul(value, at::add(s.neg(), 1.0)).mul_(p_slope), s);
  return {std::move(value), std::move(slope)};
}

ValueAndSlope evaluate(const at::Tensor& z, ActivationKind kind) {
  if (kind == ActivationKind::kSilu) {
    return logistic_unit(z, at::sigmoid(z), at::empty_like(z).fill_(1.0));
  }
  if (kind == ActivationKind::kSquaredRelu) {
    const at::Tensor positive = at::clamp_min(z, 0);
    return {at::mul(positive, positive), at::mul(positive, 2)};
  }
  if (kind == ActivationKind::kClampedSwish) {
    const at::Tensor clamped = at::clamp_max(z, kSwishLimit);
    const at::Tensor s = at::sigmoid(at::mul(clamped, kSwishScale));
    auto [value, slope] = logistic_unit(clamped, s, at::empty_like(z).fill_(kSwishScale));
    return {std::move(value), slope.mul_(at::le(z, kSwishLimit))};
  }
  if (kind == ActivationKind::kGeluTanh) {
    const double scale = 2.0 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
    const at::Tensor square = at::mul(z, z);
    const at::Tensor p = at::mul(square, 0.044715).add_(1.0).mul_(z).mul_(scale);
    return logistic_unit(z, at::sigmoid(p), at::mul(square, 3 * 0.044715).add_(1.0).mul_(scale));
  }
  const at::Tensor share = at::erf(at::mul(z, 1.0 / std::numbers::sqrt2)).add_(1.0).mul_(0.5);
  const double density_scale = std::numbers::inv_sqrtpi / std::numbers::sqrt2;
  const at::Tensor density = at::mul(z, z).mul_(-0.5).exp_().mul_(density_scale);
  return {at::mul(z, share), at::add(share, at::mul(z, density))};
}

// u(up) and its derivative.
ValueAndSlope evaluate_up(const at::Tensor& up, ActivationKind kind) {
  if (kind != ActivationKind::kClampedSwish) return {up, at::Tensor()};
  return {at::clamp(up, -kSwishLimit, kSwishLimit).add_(1.0), at::le(up.abs(), kSwishLimit)};
}

// Writes results after all inputs were read, because they may share memory.
void write_gradients(const at::Tensor& grad_output, const at::Tensor& x,
                     const Activation& activation, const at::Tensor& dx,
                     const at::Tensor& recomputed_output) {
  const std::int64_t width = grad_output.size(1);
  const auto [value, slope] = evaluate(x.narrow(1, 0, width).to(at::kFloat), activation.kind);
  at::Tensor up_grad;
  at::Tensor y = value;
  if (activation.gated) {
    const auto [up, up_slope] =
        evaluate_up(x.narrow(1, width, width).to(at::kFloat), activation.kind);
    up_grad = at::mul(value, grad_output);
    if (up_slope.defined()) up_grad.mul_(up_slope);
    slope.mul_(up);
    y = at::mul(value, up);
  }
  dx.narrow(1, 0, width).copy_(slope.mul_(grad_output));
  if (activation.gated) dx.narrow(1, width, width).copy_(up_grad);
  if (recomputed_output.defined()) recomputed_output.copy_(y);
}

}  // namespace

at::Tensor activation_forward(const at::Tensor& x, const Activation& activation,
                              const at::Tensor& amax) {
  if (x.is_cuda()) return activation_forward_cuda(x, activation, amax);
  const std::int64_t width = activation.gated ? x.size(1) / 2 : x.size(1);
  at::Tensor y = evaluate(x.narrow(1, 0, width).to(at::kFloat), activation.kind).value;
  if (activation.gated) {
    y.mul_(evaluate_up(x.narrow(1, width, width).to(at::kFloat), activation.kind).value);
  }
  return y.to(x.scalar_type());
}

at::Tensor activation_backward(const at::Tensor& grad_output, const at::Tensor& x,
                               const Activation& activation, const at::Tensor& recomputed_output,
                               const at::Tensor& amax) {
  at::Tensor dx = at::empty_like(x, at::MemoryFormat::Contiguous);
  if (x.is_cuda()) {
    activation_backward_cuda(grad_output, x, activation, dx, recomputed_output, amax);
  } else {
    write_gradients(grad_output, x, activation, dx, recomputed_output);
  }
  return dx;
}

void activation_backward_in_place(const at::Tensor& grad_output, const at::Tensor& x,
                                  const Activation& activation, bool recomputes_output,
                                  const at::Tensor& amax) {
  const at::Tensor y = recomputes_output ? grad_output : at::Tensor();
  if (x.is_cuda()) {
    activation_backward_cuda(grad_output, x, activation, x, y, amax);
  } else {
    write_gradients(grad_output, x, activation, x, y);
  }
}

}  // namespace packtrain
