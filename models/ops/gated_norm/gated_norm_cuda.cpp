#include "models/ops/gated_norm/gated_norm.h"

#include <ATen/ops/empty.h>
#include <c10/util/StringUtil.h>

#include "framework/core/error.h"
#include "models/ops/cuda/column_sums.h"
#include "models/ops/cuda/current_stream.h"
#include "models/ops/cuda/gradient_target.h"
#include "models/ops/gated_norm/gated_norm_launch.h"

namespace packtrain {
namespace {

// True if the heads of a row of x [T, H, V] follow each other without gaps.
bool has_whole_rows(const at::Tensor& x) {
  return x.stride(2) == 1 && x.stride(1) == x.size(2);
}

at::Tensor whole_rows(const at::Tensor& x) {
  return has_whole_rows(x) ? x : x.contiguous();
}

GatedNormArguments gated_norm_arguments(const at::Tensor& x, const at::Tensor& z,
                                        const at::Tensor& weight) {
  if (x.size(2) > kGatedNormMaxWidth) {
    throw Error(ErrorCategory::kInternal,
                c10::str("gated norm: got heads of ", x.size(2), " elements, wanted at most ",
                         kGatedNormMaxWidth));
  }
  GatedNormArguments arguments;
  arguments.x = x.const_data_ptr();
  arguments.z = z.const_data_ptr();
  arguments.z_stride = z.stride(0);
  arguments.weight = weight.const_data_ptr<float>();
  arguments.num_rows = x.size(0);
  arguments.num_heads = static_cast<int>(x.size(1));
  arguments.head_dim = static_cast<int>(x.size(2));
  arguments.dtype = float_type_of(x, "gated norm");
  return arguments;
}

}  // namespace

GatedNormOutput gated_norm_forward_cuda(const at::Tensor& x, const at::Tensor& z,
                                        const Parameter& weight, double epsilon) {
  const at::Tensor in = x.contiguous();
  const at::Tensor gate = whole_rows(z);
  const at::Tensor scale = weight.value.to(at::kFloat);
  GatedNormOutput output{at::empty(in.sizes(), in.options()),
                         at::empty({in.size(0), in.size(1)}, in.options().dtype(at::kFloat))};
  GatedNormArguments arguments = gated_norm_arguments(in, gate, scale);
  arguments.epsilon = static_cast<float>(epsilon);
  arguments.output = output.y.data_ptr();
  arguments.inverse_rms = output.inverse_rms.data_ptr<float>();
  launch_gated_norm(arguments, current_stream(in));
  return output;
}

at::Tensor gated_norm_backward_cuda(const at::Tensor& grad_output, const GatedNormSaved& saved,
                                    const Parameter& weight, const at::Tensor& grad_z,
                                    const at::Tensor& recomputed_output) {
  const at::Tensor in = saved.x.contiguous();
  const at::Tensor gate = whole_rows(saved.z);
  const at::Tensor grad = grad_output.contiguous();
  const at::Tensor scale = weight.value.to(at::kFloat);
  const bool writes_in_place = has_whole_rows(grad_z);
  const at::Tensor dz = writes_in_place ? grad_z : at::empty(in.sizes(), in.options());
  at::Tensor dx = at::empty(in.sizes(), in.options());
  GatedNormArguments arguments = gated_norm_arguments(in, gate, scale);
  arguments.grad_output = grad.const_data_ptr();
  arguments.output = dx.data_ptr();
  arguments.grad_z = dz.data_ptr();
  arguments.grad_z_stride = dz.stride(0);
  arguments.inverse_rms = saved.inverse_rms.data_ptr<float>();
  if (recomputed_output.defined()) arguments.recomputed_output = recomputed_output.data_ptr();
  ColumnSumsArguments sums;
  sums.num_columns = arguments.head_dim;
  sums.num_partials = gated_norm_backward_blocks(arguments);
  sums.targets[0] = gradient_target(&weight, "gated norm");
  at::Tensor partials;
  if (weight.grad.defined()) {
    partials = at::empty({sums.num_partials, sums.num_columns}, in.options().dtype(at::kFloat));
    arguments.partials = partials.data_ptr<float>();
    sums.partials = arguments.partials;
  }
  launch_gated_norm(arguments, current_stream(in));
  if (partials.defined()) launch_column_sums(sums, current_stream(in));
  if (!writes_in_place) grad_z.copy_(dz);
  return dx;
}

}  // namespace packtrain
