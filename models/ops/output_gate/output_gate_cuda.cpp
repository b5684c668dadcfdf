#include "models/ops/output_gate/output_gate.h"

#include <ATen/ops/empty.h>

#include "models/ops/cuda/current_stream.h"
#include "models/ops/output_gate/output_gate_launch.h"

namespace packtrain {
namespace {

at::Tensor dense_columns(const at::Tensor& x) {
  return x.stride(1) == 1 ? x : x.contiguous();
}

OutputGateArguments output_gate_arguments(const at::Tensor& x, const at::Tensor& z) {
  OutputGateArguments arguments;
  arguments.x = x.const_data_ptr();
  arguments.z = z.const_data_ptr();
  arguments.num_rows = x.size(0);
  arguments.width = x.size(1);
  arguments.z_stride = z.stride(0);
  arguments.dtype = float_type_of(x, "output gate");
  return arguments;
}

}  // namespace

at::Tensor output_gate_forward_cuda(const at::Tensor& x, const at::Tensor& z) {
  const at::Tensor in = x.contiguous();
  const at::Tensor gate = dense_columns(z);
  at::Tensor y = at::empty(in.sizes(), in.options());
  OutputGateArguments arguments = output_gate_arguments(in, gate);
  arguments.output = y.data_ptr();
  launch_output_gate(arguments, current_stream(in));
  return y;
}

at::Tensor output_gate_backward_cuda(const at::Tensor& grad_output, const at::Tensor& x,
                                     const at::Tensor& z, const at::Tensor& grad_z,
                                     const at::Tensor& recomputed_output) {
  const at::Tensor in = x.contiguous();
  const at::Tensor gate = dense_columns(z);
  const at::Tensor grad = grad_output.contiguous();
  const bool writes_in_place = grad_z.stride(1) == 1;
  const at::Tensor dz = writes_in_place ? grad_z : at::empty(in.sizes(), in.options());
  at::Tensor dx = at::empty(in.sizes(), in.options());
  OutputGateArguments arguments = output_gate_arguments(in, gate);
  arguments.grad_output = grad.const_data_ptr();
  arguments.output = dx.data_ptr();
  arguments.grad_z = dz.data_ptr();
  arguments.grad_z_stride = dz.stride(0);
  if (recomputed_output.defined()) arguments.recomputed_output = recomputed_output.data_ptr();
  launch_output_gate(arguments, current_stream(in));
  if (!writes_in_place) grad_z.copy_(dz);
  return dx;
}

}  // namespace packtrain
