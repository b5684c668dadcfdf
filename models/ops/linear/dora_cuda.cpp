#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include "models/ops/cuda/current_stream.h"
#include "models/ops/linear/bias_gradient_launch.h"
#include "models/ops/linear/dora.h"
#include "models/ops/linear/dora_launch.h"

namespace packtrain {

at::Tensor dora_scale_forward_cuda(const at::Tensor& z, const at::Tensor& factors,
                                   const Parameter* bias, const at::Tensor& residual) {
  at::Tensor y = at::empty_like(z);
  const at::Tensor added = residual.defined() ? residual.contiguous() : residual;
  DoraScaleArguments arguments;
  arguments.z = z.const_data_ptr();
  arguments.factors = factors.const_data_ptr<float>();
  if (bias != nullptr) arguments.bias = bias->value.const_data_ptr();
  if (added.defined()) arguments.residual = added.const_data_ptr();
  arguments.y = y.mutable_data_ptr();
  arguments.num_rows = z.size(0);
  arguments.num_columns = z.size(1);
  arguments.dtype = float_type_of(z, "dora_scale");
  launch_dora_scale(arguments, current_stream(z));
  return y;
}

at::Tensor dora_scale_backward_cuda(const at::Tensor& grad_output, const at::Tensor& z,
                                    const at::Tensor& factors) {
  const at::Tensor grad = grad_output.contiguous();
  const auto options = z.options().dtype(at::kFloat);
  at::Tensor sums = at::empty({z.size(1)}, options);
  DoraScaleBackwardArguments arguments;
  arguments.num_splits = num_bias_gradient_splits(z.size(0), z.size(1));
  const at::Tensor partial_sums = at::empty({arguments.num_splits, z.size(1)}, options);
  arguments.grad_output = grad.const_data_ptr();
  arguments.z = z.mutable_data_ptr();
  arguments.factors = factors.const_data_ptr<float>();
  arguments.partial_sums = partial_sums.mutable_data_ptr<float>();
  arguments.sums = sums.mutable_data_ptr<float>();
  arguments.num_rows = z.size(0);
  arguments.num_columns = z.size(1);
  arguments.dtype = float_type_of(z, "dora_scale");
  launch_dora_scale_backward(arguments, current_stream(z));
  return sums;
}

}  // namespace packtrain
