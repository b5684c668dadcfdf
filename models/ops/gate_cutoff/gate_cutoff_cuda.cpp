#include <ATen/ops/empty.h>

#include "framework/core/error.h"
#include "models/ops/cuda/current_stream.h"
#include "models/ops/gate_cutoff/gate_cutoff.h"
#include "models/ops/gate_cutoff/gate_cutoff_launch.h"

namespace packtrain {
namespace {

GateCutoffArguments gate_cutoff_arguments(const at::Tensor& x, double quantile) {
  GateCutoffArguments arguments;
  arguments.x = x.const_data_ptr();
  arguments.num_rows = x.size(0);
  arguments.inner = static_cast<int>(x.size(1) / 2);
  arguments.quantile = static_cast<float>(quantile);
  arguments.dtype = float_type_of(x, "gate_cutoff");
  return arguments;
}

}  // namespace

at::Tensor gate_cutoff_forward_cuda(const at::Tensor& x, double quantile) {
  const at::Tensor in = x.contiguous();
  at::Tensor y = at::empty(in.sizes(), in.options());
  GateCutoffArguments arguments = gate_cutoff_arguments(in, quantile);
  arguments.output = y.data_ptr();
  launch_gate_cutoff(arguments, current_stream(in));
  return y;
}

void gate_cutoff_backward_cuda_(const at::Tensor& grad, const at::Tensor& x, double quantile) {
  if (!grad.is_contiguous() || grad.scalar_type() != x.scalar_type()) {
    throw Error(ErrorCategory::kInternal,
                "gate_cutoff_backward: the gradient is not contiguous or not of the type of x");
  }
  const at::Tensor in = x.contiguous();
  GateCutoffArguments arguments = gate_cutoff_arguments(in, quantile);
  arguments.grad = grad.data_ptr();
  launch_gate_cutoff(arguments, current_stream(in));
}

}  // namespace packtrain
