#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/util/StringUtil.h>

#include "framework/core/error.h"
#include "models/ops/cuda/column_sums.h"
#include "models/ops/cuda/current_stream.h"
#include "models/ops/cuda/gradient_target.h"
#include "models/ops/gated_norm/product_norm.h"
#include "models/ops/gated_norm/product_norm_launch.h"

namespace packtrain {
namespace {

at::Tensor dense_columns(const at::Tensor& rows) {
  return rows.stride(1) == 1 ? rows : rows.contiguous();
}

// `weight` may be undefined.
ProductNormArguments product_norm_arguments(const at::Tensor& x, const at::Tensor& z,
                                            const at::Tensor& weight,
                                            const ProductNormOptions& options) {
  const std::int64_t width = x.size(1) / options.parts;
  if (width > kProductNormMaxWidth) {
    throw Error(ErrorCategory::kInternal,
                c10::str("norm of a gated product: got parts of ", width,
                         " elements, wanted at most ", kProductNormMaxWidth));
  }
  ProductNormArguments arguments;
  arguments.x = x.const_data_ptr();
  arguments.z = z.const_data_ptr();
  arguments.z_stride = z.stride(0);
  arguments.weight = weight.defined() ? weight.const_data_ptr<float>() : nullptr;
  arguments.num_rows = x.size(0);
  arguments.num_parts = static_cast<int>(options.parts);
  arguments.width = static_cast<int>(width);
  arguments.epsilon = static_cast<float>(options.epsilon);
  arguments.dtype = float_type_of(x, "norm of a gated product");
  return arguments;
}

// The weight in float32. Undefined without one.
at::Tensor scale_of(const Parameter* weight) {
  return weight != nullptr ? weight->value.to(at::kFloat).contiguous() : at::Tensor();
}

}  // namespace

at::Tensor product_norm_forward_cuda(const at::Tensor& x, const at::Tensor& z,
                                     const Parameter* weight, const ProductNormOptions& options) {
  const at::Tensor in = x.contiguous();
  const at::Tensor gate = dense_columns(z);
  const at::Tensor scale = scale_of(weight);
  at::Tensor y = at::empty(in.sizes(), in.options());
  ProductNormArguments arguments = product_norm_arguments(in, gate, scale, options);
  arguments.output = y.data_ptr();
  launch_product_norm(arguments, current_stream(in));
  return y;
}

at::Tensor product_norm_backward_cuda(const at::Tensor& grad_output, const at::Tensor& x,
                                      const at::Tensor& z, const Parameter* weight,
                                      const ProductNormOptions& options, const at::Tensor& grad_z,
                                      const at::Tensor& recomputed_output) {
  const at::Tensor in = x.contiguous();
  const at::Tensor gate = dense_columns(z);
  const at::Tensor grad = grad_output.contiguous();
  const at::Tensor scale = scale_of(weight);
  const at::Tensor dz = dense_columns(grad_z);
  at::Tensor dx = at::empty(in.sizes(), in.options());
  ProductNormArguments arguments = product_norm_arguments(in, gate, scale, options);
  arguments.grad_output = grad.const_data_ptr();
  arguments.output = dx.data_ptr();
  arguments.grad_z = dz.data_ptr();
  arguments.grad_z_stride = dz.stride(0);
  if (recomputed_output.defined()) arguments.recomputed_output = recomputed_output.data_ptr();
  ColumnSumsArguments sums;
  sums.num_columns = in.size(1);
  sums.num_partials = product_norm_backward_blocks(arguments);
  sums.targets[0] = gradient_target(weight, "norm of a gated product");
  at::Tensor partials;
  if (sums.targets[0].grad != nullptr) {
    // Without rows no kernel writes them.
    const std::int64_t sizes[] = {sums.num_partials, sums.num_columns};
    partials = in.size(0) > 0 ? at::empty(sizes, in.options().dtype(at::kFloat))
                              : at::zeros(sizes, in.options().dtype(at::kFloat));
    arguments.partials = partials.data_ptr<float>();
    sums.partials = arguments.partials;
  }
  launch_product_norm(arguments, current_stream(in));
  if (partials.defined()) launch_column_sums(sums, current_stream(in));
  if (!dz.is_same(grad_z)) grad_z.copy_(dz);
  return dx;
}

}  // namespace packtrain
