#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include "models/ops/cuda/current_stream.h"
#include "models/ops/delta_rule/causal_conv_cuda.h"
#include "models/ops/short_conv/short_conv.h"
#include "models/ops/short_conv/short_conv_launch.h"

namespace packtrain {
namespace {

// `rows` [T, 3 C] has no gaps.
ShortConvArguments short_conv_arguments(const at::Tensor& rows,
                                        const CausalConvParameters& parameters,
                                        const CausalConvOptions& options,
                                        const at::Tensor& boundaries) {
  const ShortConvColumns in = short_conv_columns(rows);
  ShortConvArguments arguments{conv_arguments(in.x, parameters, options, boundaries)};
  arguments.b = in.b.const_data_ptr();
  arguments.c = in.c.const_data_ptr();
  return arguments;
}

}  // namespace

at::Tensor short_conv_forward_cuda(const at::Tensor& projection,
                                   const CausalConvParameters& parameters,
                                   const CausalConvOptions& options) {
  const at::Tensor rows = projection.contiguous();
  const at::Tensor boundaries = conv_boundaries(options, rows.device());
  ShortConvArguments arguments = short_conv_arguments(rows, parameters, options, boundaries);
  at::Tensor y = at::empty({rows.size(0), arguments.num_channels}, rows.options());
  arguments.output = y.data_ptr();
  launch_short_conv(arguments, current_stream(rows));
  return y;
}

at::Tensor short_conv_backward_cuda(const at::Tensor& grad_output, const at::Tensor& projection,
                                    const CausalConvParameters& parameters,
                                    const CausalConvOptions& options, const at::Tensor& output) {
  const at::Tensor rows = projection.contiguous();
  const at::Tensor grad_y = grad_output.contiguous();
  const at::Tensor boundaries = conv_boundaries(options, rows.device());
  ShortConvArguments arguments = short_conv_arguments(rows, parameters, options, boundaries);
  const ConvPartials partials(rows, parameters, arguments);
  at::Tensor grad = at::empty_like(rows);
  const ShortConvColumns grads = short_conv_columns(grad);
  arguments.grad_output = grad_y.const_data_ptr();
  arguments.grad_b = grads.b.data_ptr();
  arguments.grad_c = grads.c.data_ptr();
  arguments.grad_x = grads.x.data_ptr();
  arguments.grad_stride = grad.stride(0);
  if (output.defined()) arguments.output = output.data_ptr();
  launch_short_conv(arguments, current_stream(rows));
  partials.write(rows, parameters);
  return grad;
}

}  // namespace packtrain
