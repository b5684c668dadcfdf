#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "models/ops/cuda/current_stream.h"
#include "models/ops/xielu/xielu.h"
#include "models/ops/xielu/xielu_launch.h"

namespace packtrain {
namespace {

XieluArguments xielu_arguments(const at::Tensor& x, const at::Tensor& numbers) {
  XieluArguments arguments;
  arguments.x = x.const_data_ptr();
  arguments.numbers = numbers.const_data_ptr<float>();
  arguments.numel = x.numel();
  arguments.num_blocks = xielu_num_blocks(x.numel());
  arguments.dtype = float_type_of(x, "xielu");
  return arguments;
}

}  // namespace

at::Tensor xielu_forward_cuda(const at::Tensor& x, const at::Tensor& numbers) {
  const at::Tensor in = x.contiguous();
  at::Tensor y = at::empty(in.sizes(), in.options());
  XieluArguments arguments = xielu_arguments(in, numbers);
  arguments.output = y.data_ptr();
  launch_xielu(arguments, current_stream(in));
  return y;
}

at::Tensor xielu_backward_cuda(const at::Tensor& grad_output, const at::Tensor& x,
                               const at::Tensor& numbers, const at::Tensor& recomputed_output) {
  // An empty tensor has no address, and the kernel takes a gradient without one for a forward.
  if (x.numel() == 0) return at::zeros({2}, numbers.options());
  XieluArguments arguments = xielu_arguments(x, numbers);
  const at::Tensor sums = at::empty({arguments.num_blocks, 2}, numbers.options());
  arguments.grad_output = grad_output.const_data_ptr();
  arguments.output = x.data_ptr();
  arguments.sums = sums.data_ptr<float>();
  if (recomputed_output.defined()) arguments.recomputed_output = recomputed_output.data_ptr();
  launch_xielu(arguments, current_stream(x));
  return sums.sum(at::IntArrayRef{0});
}

}  // namespace packtrain
