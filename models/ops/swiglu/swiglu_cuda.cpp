#include "models/ops/swiglu/swiglu_cuda.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include "models/ops/cuda/current_stream.h"
#include "models/ops/swiglu/swiglu_launch.h"

namespace packtrain {
namespace {

SwigluArguments arguments_of(const at::Tensor& gate_up) {
  SwigluArguments arguments;
  arguments.gate_up = gate_up.const_data_ptr();
  arguments.num_rows = gate_up.size(0);
  arguments.inner = gate_up.size(1) / 2;
  arguments.bfloat16 = is_bfloat16(gate_up, "swiglu");
  return arguments;
}

}  // namespace

at::Tensor swiglu_forward_cuda(const at::Tensor& gate_up) {
  const at::Tensor in = gate_up.contiguous();
  SwigluArguments arguments = arguments_of(in);
  at::Tensor y = at::empty({arguments.num_rows, arguments.inner}, in.options());
  arguments.output = y.data_ptr();
  launch_swiglu(arguments, current_stream(in));
  return y;
}

at::Tensor swiglu_backward_cuda(const at::Tensor& grad_output, const at::Tensor& gate_up) {
  const at::Tensor in = gate_up.contiguous();
  const at::Tensor grad = grad_output.contiguous();
  SwigluArguments arguments = arguments_of(in);
  at::Tensor grad_in = at::empty_like(in);
  arguments.grad_output = grad.const_data_ptr();
  arguments.output = grad_in.data_ptr();
  launch_swiglu(arguments, current_stream(in));
  return grad_in;
}

}  // namespace packtrain
