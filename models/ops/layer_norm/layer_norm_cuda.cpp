#include "models/ops/layer_norm/layer_norm.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include "models/ops/cuda/current_stream.h"
#include "models/ops/cuda/gradient_target.h"
#include "models/ops/fp8/fp8.h"
#include "models/ops/layer_norm/layer_norm_launch.h"

namespace packtrain {
namespace {

NormArguments arguments_of(const at::Tensor& x, const Parameter& weight, const Parameter* bias) {
  NormArguments arguments;
  arguments.x = x.const_data_ptr();
  arguments.weight = weight.value.const_data_ptr();
  if (bias != nullptr) arguments.bias = bias->value.const_data_ptr();
  arguments.num_rows = x.size(0);
  arguments.hidden = x.size(1);
  arguments.row_stride = x.size(1);
  arguments.dtype = float_type_of(x, "layer_norm");
  return arguments;
}

// Launches the backward kernel and the sum of its partial sums.
void launch_backward(NormArguments& arguments, const at::Tensor& x, const Parameter& weight,
                     const Parameter* bias) {
  ColumnSumsArguments sums;
  sums.num_columns = arguments.hidden;
  sums.num_partials = layer_norm_backward_blocks(arguments);
  sums.num_targets = 2;
  sums.targets[0] = gradient_target(&weight, "layer_norm");
  sums.targets[1] = gradient_target(bias, "layer_norm");
  const bool wanted = sums.targets[0].grad != nullptr || sums.targets[1].grad != nullptr;
  at::Tensor partials;
  if (wanted) {
    partials = at::empty({sums.num_partials, 2, arguments.hidden}, x.options().dtype(at::kFloat));
    arguments.partials = partials.data_ptr<float>();
    sums.partials = arguments.partials;
  }
  launch_layer_norm(arguments, current_stream(x));
  if (wanted) launch_column_sums(sums, current_stream(x));
}

}  // namespace

LayerNormOutput layer_norm_forward_cuda(const at::Tensor& x, const Parameter& weight,
                                        const Parameter* bias, const LayerNormOptions& options,
                                        const at::Tensor& amax) {
  const at::Tensor in = x.contiguous();
  const at::TensorOptions wide = in.options().dtype(at::kFloat);
  LayerNormOutput output{at::empty_like(in), at::empty({in.size(0), 1}, wide),
                         at::empty({in.size(0), 1}, wide)};
  NormArguments arguments = arguments_of(in, weight, bias);
  arguments.output = output.y.data_ptr();
  arguments.amax = fp8_amax_slots(amax);
  arguments.mean = output.mean.data_ptr<float>();
  arguments.inverse = output.inverse_deviation.data_ptr<float>();
  arguments.epsilon = static_cast<float>(options.epsilon);
  launch_layer_norm(arguments, current_stream(in));
  return output;
}

at::Tensor layer_norm_backward_cuda(const at::Tensor& grad_output, const at::Tensor& x,
                                    const at::Tensor& mean, const at::Tensor& inverse_deviation,
                                    const Parameter& weight, const Parameter* bias,
                                    const at::Tensor& grad_residual,
                                    const at::Tensor& recomputed_output) {
  const at::Tensor in = x.contiguous();
  const at::Tensor grad = grad_output.contiguous();
  const at::Tensor added = grad_residual.defined() ? grad_residual.contiguous() : grad_residual;
  at::Tensor dx = at::empty_like(in);
  NormArguments arguments = arguments_of(in, weight, bias);
  arguments.grad_output = grad.const_data_ptr();
  if (added.defined()) arguments.residual = added.const_data_ptr();
  if (recomputed_output.defined()) arguments.recomputed_output = recomputed_output.data_ptr();
  arguments.output = dx.data_ptr();
  arguments.mean = mean.data_ptr<float>();
  arguments.inverse = inverse_deviation.data_ptr<float>();
  launch_backward(arguments, in, weight, bias);
  return dx;
}

}  // namespace packtrain
