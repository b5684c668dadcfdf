#include "models/ops/short_conv/short_conv.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/mul.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>

#include "framework/core/error.h"

namespace packtrain {
namespace {

constexpr std::int64_t kNumColumnParts = 3;

void check_projection(const at::Tensor& projection, const CausalConvParameters& parameters,
                      const CausalConvOptions& options) {
  const at::Tensor& weight = parameters.weight.value;
  const bool fits = projection.dim() == 2 && weight.dim() == 2 &&
                    projection.size(1) == kNumColumnParts * weight.size(0);
  if (fits && !options.silu) return;
  throw Error(ErrorCategory::kInternal,
              fmt::format("short convolution: got a projection [{}] and a weight [{}]{}, wanted "
                          "[rows, 3 channels] and [channels, width] without an activation",
                          fmt::join(projection.sizes(), ", "), fmt::join(weight.sizes(), ", "),
                          options.silu ? " with silu" : ""));
}

}  // namespace

ShortConvColumns short_conv_columns(const at::Tensor& projection) {
  const std::int64_t width = projection.size(1) / kNumColumnParts;
  return {projection.narrow(1, 0, width), projection.narrow(1, width, width),
          projection.narrow(1, 2 * width, width)};
}

at::Tensor short_conv_forward(const at::Tensor& projection, const CausalConvParameters& parameters,
                              const CausalConvOptions& options) {
  check_projection(projection, parameters, options);
  if (projection.is_cuda()) return short_conv_forward_cuda(projection, parameters, options);
  const ShortConvColumns in = short_conv_columns(projection);
  return causal_conv_forward(at::mul(in.b, in.x), parameters, options).mul_(in.c);
}

at::Tensor short_conv_backward(const at::Tensor& grad_output, const at::Tensor& projection,
                               const CausalConvParameters& parameters,
                               const CausalConvOptions& options, const at::Tensor& output) {
  check_projection(projection, parameters, options);
  if (projection.is_cuda()) {
    return short_conv_backward_cuda(grad_output, projection, parameters, options, output);
  }
  const ShortConvColumns in = short_conv_columns(projection);
  const at::Tensor grad = at::empty_like(projection);
  ShortConvColumns grads = short_conv_columns(grad);
  const at::Tensor product = at::mul(in.b, in.x);
  const at::Tensor mixed = causal_conv_forward(product, parameters, options);
  at::mul_out(grads.c, grad_output, mixed);
  if (output.defined()) {
    at::Tensor again = output;
    at::mul_out(again, mixed, in.c);
  }
  const at::Tensor grad_product = at::empty_like(product);
  causal_conv_backward(at::mul(grad_output, in.c), product, parameters, options, grad_product);
  at::mul_out(grads.b, grad_product, in.x);
  at::mul_out(grads.x, grad_product, in.b);
  return grad;
}

}  // namespace packtrain
