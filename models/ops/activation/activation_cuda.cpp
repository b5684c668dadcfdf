#include "models/ops/activation/activation.h"

#include <ATen/ops/empty.h>

#include "models/ops/activation/activation_launch.h"
#include "models/ops/cuda/current_stream.h"
#include "models/ops/fp8/fp8.h"

namespace packtrain {
namespace {

ActivationArguments arguments_of(const at::Tensor& x, const Activation& activation,
                                 const at::Tensor& amax) {
  ActivationArguments arguments;
  arguments.x = x.const_data_ptr();
  arguments.num_rows = x.size(0);
  arguments.inner = activation.gated ? x.size(1) / 2 : x.size(1);
  arguments.activation = activation;
  arguments.amax = fp8_amax_slots(amax);
  arguments.dtype = float_type_of(x, "activation");
  return arguments;
}

}  // namespace

at::Tensor activation_forward_cuda(const at::Tensor& x, const Activation& activation,
                                   const at::Tensor& amax) {
  const at::Tensor in = x.contiguous();
  ActivationArguments arguments = arguments_of(in, activation, amax);
  at::Tensor y = at::empty({arguments.num_rows, arguments.inner}, in.options());
  arguments.output = y.data_ptr();
  launch_activation(arguments, current_stream(in));
  return y;
}

void activation_backward_cuda(const at::Tensor& grad_output, const at::Tensor& x,
                              const Activation& activation, const at::Tensor& dx,
                              const at::Tensor& recomputed_output, const at::Tensor& amax) {
  const at::Tensor in = x.contiguous();
  const at::Tensor grad = grad_output.contiguous();
  ActivationArguments arguments = arguments_of(in, activation, amax);
  arguments.grad_output = grad.const_data_ptr();
  arguments.output = dx.data_ptr();
  if (recomputed_output.defined()) arguments.recomputed_output = recomputed_output.data_ptr();
  launch_activation(arguments, current_stream(in));
}

}  // namespace packtrain
