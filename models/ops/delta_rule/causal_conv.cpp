#include "models/ops/delta_rule/causal_conv.h"

#include <ATen/ops/mul.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "framework/core/error.h"
#include "models/ops/gradient.h"

namespace packtrain {
namespace {

void check_device_boundaries(const at::Tensor& x, const CausalConvOptions& options) {
  const at::Tensor& got = options.device_boundaries;
  if (!got.defined()) return;
  const std::int64_t wanted = std::ssize(options.boundaries);
  if (got.scalar_type() == at::kInt && got.sizes() == at::IntArrayRef(wanted) &&
      got.is_contiguous() && got.device() == x.device()) {
    return;
  }
  throw Error(
      ErrorCategory::kInternal,
      fmt::format("causal convolution: got device boundaries {} [{}] on {}, wanted Int [{}] "
                  "on {}",
                  c10::toString(got.scalar_type()), fmt::join(got.sizes(), ", "),
                  got.device().str(), wanted, x.device().str()));
}

void check(const at::Tensor& x, const at::Tensor& weight, const CausalConvOptions& options) {
  const auto& boundaries = options.boundaries;
  const bool covers = !boundaries.empty() && boundaries.front() == 0 &&
                      boundaries.back() == x.size(0) && std::ranges::is_sorted(boundaries);
  check_device_boundaries(x, options);
  if (x.dim() == 2 && weight.dim() == 2 && weight.size(0) == x.size(1) && covers) {
    return;
  }
  throw Error(ErrorCategory::kInternal,
              fmt::format("causal convolution: x [{}], a weight [{}] and boundaries up "
                          "to the number of rows do not fit",
                          fmt::join(x.sizes(), ", "), fmt::join(weight.sizes(), ", ")));
}

// Takes the rows of each sequence that have another one `lag` rows before them. Calls `add` with
// the first of these, the first of the others, and their number.
template <class Add>
void for_each_run(const CausalConvOptions& options, std::int64_t lag, const Add& add) {
  for (std::size_t s = 0; s + 1 < options.boundaries.size(); ++s) {
    const std::int64_t begin = options.boundaries[s];
    const std::int64_t size = options.boundaries[s + 1] - begin - lag;
    if (size > 0) add(begin + lag, begin, size);
  }
}

// The weights of the rows `lag` before, [C].
at::Tensor weights_at(const at::Tensor& weight, std::int64_t lag) {
  return weight.select(1, weight.size(1) - 1 - lag);
}

// z of float32 x.
at::Tensor convolve(const at::Tensor& x, const CausalConvParameters& parameters,
                    const CausalConvOptions& options) {
  const at::Tensor weight = parameters.weight.value.to(at::kFloat);
  const at::Tensor z = at::zeros_like(x);
  if (parameters.bias != nullptr) z.add_(parameters.bias->value.to(at::kFloat));
  for (std::int64_t lag = 0; lag < weight.size(1); ++lag) {
    const at::Tensor factors = weights_at(weight, lag);
    for_each_run(options, lag, [&](std::int64_t row, std::int64_t before, std::int64_t size) {
      z.narrow(0, row, size).add_(at::mul(x.narrow(0, before, size), factors));
    });
  }
  return z;
}

// dz of y = silu(z): s (1 + z (1 - s)) dy with s = sigmoid(z).
at::Tensor silu_gradient(const at::Tensor& grad, const at::Tensor& z) {
  const at::Tensor s = at::sigmoid(z);
  return at::sub(s, 1).neg_().mul_(z).add_(1).mul_(s).mul_(grad);
}

}  // namespace

at::Tensor causal_conv_forward(const at::Tensor& x, const CausalConvParameters& parameters,
                               const CausalConvOptions& options) {
  check(x, parameters.weight.value, options);
  if (x.is_cuda()) return causal_conv_forward_cuda(x, parameters, options);
  const at::Tensor z = convolve(x.to(at::kFloat), parameters, options);
  return (options.silu ? at::silu(z) : z).to(x.scalar_type());
}

void causal_conv_backward(const at::Tensor& grad_output, const at::Tensor& x,
                          const CausalConvParameters& parameters, const CausalConvOptions& options,
                          const at::Tensor& grad_x) {
  check(x, parameters.weight.value, options);
  if (x.is_cuda()) return causal_conv_backward_cuda(grad_output, x, parameters, options, grad_x);
  const at::Tensor wide = x.to(at::kFloat);
  const at::Tensor weight = parameters.weight.value.to(at::kFloat);
  at::Tensor grad = grad_output.to(at::kFloat);
  if (options.silu) grad = silu_gradient(grad, convolve(wide, parameters, options));
  const at::Tensor wide_grad = at::zeros_like(wide);
  const at::Tensor grad_weight = at::zeros_like(weight);
  for (std::int64_t lag = 0; lag < weight.size(1); ++lag) {
    const at::Tensor factors = weights_at(weight, lag);
    const at::Tensor sums = weights_at(grad_weight, lag);
    for_each_run(options, lag, [&](std::int64_t row, std::int64_t before, std::int64_t size) {
      const at::Tensor of_rows = grad.narrow(0, row, size);
      wide_grad.narrow(0, before, size).add_(at::mul(of_rows, factors));
      sums.add_(at::mul(of_rows, wide.narrow(0, before, size)).sum(0));
    });
  }
  write_gradient(parameters.weight, grad_weight);
  if (parameters.bias != nullptr) write_gradient(*parameters.bias, grad.sum(0));
  grad_x.copy_(wide_grad);
}

}  // namespace packtrain
