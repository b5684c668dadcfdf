#include "models/ops/rms_norm/rms_norm.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include "models/ops/cuda/current_stream.h"
#include "models/ops/cuda/gradient_target.h"
#include "models/ops/fp8/fp8.h"
#include "models/ops/rms_norm/rms_norm_launch.h"

namespace packtrain {
namespace {

// The elements of a row of x [T, H] are contiguous.
NormArguments arguments_of(const at::Tensor& x, const Parameter& weight,
                           const RmsNormOptions& options) {
  NormArguments arguments;
  arguments.x = x.const_data_ptr();
  arguments.weight = weight.value.const_data_ptr();
  arguments.num_rows = x.size(0);
  arguments.hidden = x.size(1);
  arguments.row_stride = x.stride(0);
  arguments.epsilon = static_cast<float>(options.epsilon);
  arguments.weight_offset = static_cast<float>(options.weight_offset);
  arguments.dtype = float_type_of(x, "rms_norm");
  return arguments;
}

at::Tensor empty_statistics(const at::Tensor& x) {
  return at::empty({x.size(0), 1}, x.options().dtype(at::kFloat));
}

// Launches the backward kernel and the sum of its partial sums.
void launch_backward(NormArguments& arguments, const at::Tensor& x, const Parameter& weight) {
  ColumnSumsArguments sums;
  sums.num_columns = arguments.hidden;
  sums.num_partials = rms_norm_backward_blocks(arguments);
  sums.targets[0] = gradient_target(&weight, "rms_norm");
  at::Tensor partials;
  if (weight.grad.defined()) {
    partials = at::empty({sums.num_partials, arguments.hidden}, x.options().dtype(at::kFloat));
    arguments.partials = partials.data_ptr<float>();
    sums.partials = arguments.partials;
  }
  launch_rms_norm(arguments, current_stream(x));
  if (partials.defined()) launch_column_sums(sums, current_stream(x));
}

}  // namespace

RmsNormOutput rms_norm_forward_cuda(const at::Tensor& x, const Parameter& weight,
                                    const RmsNormOptions& options, const at::Tensor& amax) {
  const at::Tensor in = x.contiguous();
  RmsNormOutput output{at::empty_like(in), empty_statistics(in)};
  NormArguments arguments = arguments_of(in, weight, options);
  arguments.output = output.y.data_ptr();
  arguments.amax = fp8_amax_slots(amax);
  arguments.inverse = output.inverse_rms.data_ptr<float>();
  launch_rms_norm(arguments, current_stream(in));
  return output;
}

at::Tensor rms_norm_backward_cuda(const at::Tensor& grad_output, const at::Tensor& x,
                                  const at::Tensor& inverse_rms, const Parameter& weight,
                                  const RmsNormOptions& options, const at::Tensor& grad_residual,
                                  const at::Tensor& recomputed_output) {
  const at::Tensor in = x.contiguous();
  const at::Tensor grad = grad_output.contiguous();
  const at::Tensor added = grad_residual.defined() ? grad_residual.contiguous() : grad_residual;
  at::Tensor dx = at::empty_like(in);
  NormArguments arguments = arguments_of(in, weight, options);
  arguments.grad_output = grad.const_data_ptr();
  if (added.defined()) arguments.residual = added.const_data_ptr();
  if (recomputed_output.defined()) arguments.recomputed_output = recomputed_output.data_ptr();
  arguments.output = dx.data_ptr();
  arguments.inverse = inverse_rms.data_ptr<float>();
  launch_backward(arguments, in, weight);
  return dx;
}

at::Tensor rms_norm_forward_into_cuda(const at::Tensor& y, const at::Tensor& x,
                                      const Parameter& weight, const RmsNormOptions& options) {
  at::Tensor inverse_rms = empty_statistics(x);
  NormArguments arguments = arguments_of(x, weight, options);
  arguments.output = y.data_ptr();
  arguments.inverse = inverse_rms.data_ptr<float>();
  launch_rms_norm(arguments, current_stream(x));
  return inverse_rms;
}

void rms_norm_backward_cuda_(const at::Tensor& grad, const at::Tensor& x,
                             const at::Tensor& inverse_rms, const Parameter& weight,
                             const RmsNormOptions& options) {
  NormArguments arguments = arguments_of(x, weight, options);
  arguments.grad_output = grad.const_data_ptr();
  arguments.output = grad.data_ptr();
  arguments.inverse = inverse_rms.data_ptr<float>();
  launch_backward(arguments, x, weight);
}

}  // namespace packtrain
