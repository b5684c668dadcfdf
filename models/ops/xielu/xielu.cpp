#include "models/ops/xielu/xielu.h"

#include <ATen/ops/add.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/expm1.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softplus.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/where.h>

#include "models/ops/gradient.h"
#include "models/ops/xielu/xielu_launch.h"

namespace packtrain {
namespace {

// p, n, b and e, float32 [4].
at::Tensor numbers_of(const XieluParameters& parameters) {
  const at::Tensor beta = parameters.beta.value.to(at::kFloat);
  return at::cat({at::softplus(parameters.alpha_p.value.to(at::kFloat)),
                  at::add(at::softplus(parameters.alpha_n.value.to(at::kFloat)), beta), beta,
                  parameters.epsilon.value.to(at::kFloat)});
}

// exp(x) - 1 - x by its series. The difference would cancel near 0.
at::Tensor near_zero(const at::Tensor& x) {
  at::Tensor sum = at::mul(x, 1.0 / 720).add_(1.0 / 120);
  for (const double next : {1.0 / 24, 1.0 / 6, 1.0 / 2}) sum.mul_(x).add_(next);
  return sum.mul_(x).mul_(x);
}

at::Tensor below_of(const at::Tensor& x, const at::Tensor& epsilon) {
  const at::Tensor is_near = x.gt(kXieluNear).logical_and_(x.lt(epsilon));
  return at::where(is_near, near_zero(x), at::sub(at::expm1(at::minimum(x, epsilon)), x));
}

// The parts of the formula in float32, of any shape.
struct XieluParts {
  at::Tensor x;
  at::Tensor is_positive;
  at::Tensor below;  // exp(min(x, e)) - 1 - x

  XieluParts(const at::Tensor& rows, const at::Tensor& numbers)
      : x(rows.to(at::kFloat)), is_positive(x.gt(0)), below(below_of(x, numbers.select(0, 3))) {}

  at::Tensor value(const at::Tensor& numbers) const {
    const at::Tensor curve = at::where(is_positive, at::mul(at::mul(x, x), numbers.select(0, 0)),
                                       at::mul(below, numbers.select(0, 1)));
    return at::add(curve, at::mul(x, numbers.select(0, 2)));
  }
  at::Tensor slope(const at::Tensor& numbers) const {
    const at::Tensor moves = x.lt(numbers.select(0, 3));
    const at::Tensor negative = at::sub(at::mul(at::exp(x.clamp_max(0)), moves), 1.0);
    return at::where(is_positive, at::mul(x, numbers.select(0, 0)).mul_(2.0),
                     at::mul(negative, numbers.select(0, 1)))
        .add_(numbers.select(0, 2));
  }
};

// Writes results after all inputs were read, because they share memory. Returns dp and dn.
at::Tensor write_in_place(const at::Tensor& grad_output, const at::Tensor& x,
                          const at::Tensor& numbers, bool recomputes_output) {
  const XieluParts parts(x, numbers);
  const at::Tensor grad = grad_output.to(at::kFloat);
  const at::Tensor square = at::mul(at::mul(parts.x, parts.x), grad).mul_(parts.is_positive);
  const at::Tensor below = at::mul(parts.below, grad).mul_(parts.is_positive.logical_not());
  const at::Tensor sums = at::stack({square.sum(), below.sum()});
  const at::Tensor dx = parts.slope(numbers).mul_(grad);
  const at::Tensor y = recomputes_output ? parts.value(numbers) : at::Tensor();
  x.copy_(dx);
  if (y.defined()) grad_output.copy_(y);
  return sums;
}

}  // namespace

at::Tensor xielu_forward(const at::Tensor& x, const XieluParameters& parameters) {
  const at::Tensor numbers = numbers_of(parameters);
  if (x.is_cuda()) return xielu_forward_cuda(x, numbers);
  return XieluParts(x, numbers).value(numbers).to(x.scalar_type());
}

void xielu_backward_in_place(const at::Tensor& grad_output, const at::Tensor& x,
                             const XieluParameters& parameters, bool recomputes_output) {
  const at::Tensor numbers = numbers_of(parameters);
  const at::Tensor sums = x.is_cuda()
                              ? xielu_backward_cuda(grad_output, x, numbers,
                                                    recomputes_output ? grad_output : at::Tensor())
                              : write_in_place(grad_output, x, numbers, recomputes_output);
  const Parameter* const alphas[] = {&parameters.alpha_p, &parameters.alpha_n};
  for (std::int64_t i = 0; i < 2; ++i) {
    const Parameter& alpha = *alphas[i];
    const at::Tensor slope = at::sigmoid(alpha.value.to(at::kFloat));
    write_gradient(alpha, at::mul(slope, sums.narrow(0, i, 1)));
  }
}

}  // namespace packtrain
