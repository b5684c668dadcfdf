#include "models/ops/rms_norm/rms_norm_cuda.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>

#include "models/ops/cuda/current_stream.h"
#include "models/ops/gradient.h"
#include "models/ops/rms_norm/rms_norm_launch.h"

namespace packtrain {
namespace {

// Enough blocks to fill a GPU of 132 multiprocessors four times; fixed, so that dw is summed in the
// same order on every device.
constexpr std::int64_t kBackwardBlocks = 528;

RmsNormArguments arguments_of(const at::Tensor& x, const Parameter& weight) {
  RmsNormArguments arguments;
  arguments.x = x.const_data_ptr();
  arguments.weight = weight.value.const_data_ptr();
  arguments.hidden = x.size(-1);
  arguments.num_rows = x.numel() / arguments.hidden;
  arguments.bfloat16 = is_bfloat16(x, "rms_norm");
  return arguments;
}

}  // namespace

RmsNormOutput rms_norm_forward_cuda(const at::Tensor& x, const Parameter& weight, double epsilon) {
  const at::Tensor in = x.contiguous();
  RmsNormOutput output{at::empty_like(in),
                       at::empty({in.size(0), 1}, in.options().dtype(at::kFloat))};
  RmsNormArguments arguments = arguments_of(in, weight);
  arguments.output = output.y.data_ptr();
  arguments.inverse_rms = output.inverse_rms.data_ptr<float>();
  arguments.epsilon = static_cast<float>(epsilon);
  launch_rms_norm(arguments, current_stream(in));
  return output;
}

at::Tensor rms_norm_backward_cuda(const at::Tensor& grad_output, const at::Tensor& x,
                                  const at::Tensor& inverse_rms, const Parameter& weight) {
  const at::Tensor in = x.contiguous();
  const at::Tensor grad = grad_output.contiguous();
  at::Tensor dx = at::empty_like(in);
  RmsNormArguments arguments = arguments_of(in, weight);
  arguments.grad_output = grad.const_data_ptr();
  arguments.output = dx.data_ptr();
  arguments.inverse_rms = inverse_rms.data_ptr<float>();
  arguments.num_blocks = static_cast<int>(std::min(arguments.num_rows, kBackwardBlocks));
  at::Tensor sums;
  if (weight.grad.defined()) {
    sums = at::empty({arguments.num_blocks, arguments.hidden}, in.options().dtype(at::kFloat));
    arguments.weight_sums = sums.data_ptr<float>();
  }
  launch_rms_norm(arguments, current_stream(in));
  if (sums.defined()) write_gradient(weight, sums.sum(at::IntArrayRef{0}));
  return dx;
}

}  // namespace packtrain
