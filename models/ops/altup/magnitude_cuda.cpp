#include <ATen/ops/empty.h>

#include "models/ops/altup/altup.h"
#include "models/ops/altup/magnitude_launch.h"
#include "models/ops/cuda/current_stream.h"

namespace packtrain {
namespace {

MagnitudeArguments magnitude_arguments(const at::Tensor& p, const at::Tensor& target,
                                       const at::Tensor& output) {
  MagnitudeArguments arguments;
  arguments.p = p.const_data_ptr();
  arguments.target = target.const_data_ptr();
  arguments.output = output.data_ptr();
  arguments.num_rows = p.size(0);
  arguments.hidden = static_cast<int>(p.size(1));
  arguments.dtype = float_type_of(p, "match_magnitude");
  return arguments;
}

}  // namespace

at::Tensor match_magnitude_cuda(const at::Tensor& p, const at::Tensor& target) {
  const at::Tensor in = p.contiguous();
  const at::Tensor of = target.contiguous();
  at::Tensor y = at::empty(in.sizes(), in.options());
  launch_match_magnitude(magnitude_arguments(in, of, y), current_stream(in));
  return y;
}

MagnitudeGradients match_magnitude_backward_cuda(const at::Tensor& grad, const at::Tensor& p,
                                                 const at::Tensor& target) {
  const at::Tensor in = p.contiguous();
  const at::Tensor of = target.contiguous();
  const at::Tensor of_output = grad.stride(1) == 1 ? grad : grad.contiguous();
  MagnitudeGradients grads{at::empty(in.sizes(), in.options()),
                           at::empty(in.sizes(), in.options().dtype(at::kFloat))};
  MagnitudeArguments arguments = magnitude_arguments(in, of, grads.p);
  arguments.grad = of_output.const_data_ptr();
  arguments.grad_stride = of_output.stride(0);
  arguments.grad_target = grads.target.data_ptr<float>();
  launch_match_magnitude(arguments, current_stream(in));
  return grads;
}

}  // namespace packtrain
