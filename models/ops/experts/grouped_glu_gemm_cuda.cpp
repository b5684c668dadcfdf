#include "models/ops/experts/grouped_glu_gemm.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include "models/ops/cuda/current_stream.h"
#include "models/ops/cuda/hopper/available.h"
#include "models/ops/experts/grouped_glu_gemm_launch.h"

namespace packtrain {
namespace {

GroupedGluGemmArguments arguments_of(const at::Tensor& left, const at::Tensor& weight,
                                     const at::Tensor& ends, const Activation& activation) {
  GroupedGluGemmArguments arguments;
  arguments.left = left.const_data_ptr();
  arguments.weight = weight.const_data_ptr();
  arguments.ends = ends.const_data_ptr<std::int32_t>();
  arguments.num_rows = left.size(0);
  arguments.depth = static_cast<int>(left.size(1));
  arguments.num_groups = static_cast<int>(ends.size(0));
  arguments.kind = activation.kind;
  return arguments;
}

}  // namespace

bool has_grouped_glu_gemm_cuda() {
  return has_hopper_kernels();
}

GroupedGluGemm grouped_glu_gemm_forward_cuda(const at::Tensor& rows, const at::Tensor& weight,
                                             const at::Tensor& ends, const Activation& activation) {
  const at::Tensor left = rows.contiguous();
  const std::int64_t inner = weight.size(1) / 2;
  GroupedGluGemmArguments arguments = arguments_of(left, weight, ends, activation);
  GroupedGluGemm made;
  made.x = at::empty({left.size(0), 2 * inner}, left.options());
  made.y = at::empty({left.size(0), inner}, left.options());
  arguments.inner = static_cast<int>(inner);
  arguments.x = made.x.data_ptr();
  arguments.y = made.y.data_ptr();
  launch_grouped_glu_gemm_forward(arguments, current_stream(left));
  return made;
}

GroupedGluGemmGradients grouped_glu_gemm_backward_cuda(const at::Tensor& grad,
                                                       const at::Tensor& weight,
                                                       const at::Tensor& x, const at::Tensor& ends,
                                                       const Activation& activation) {
  const at::Tensor left = grad.contiguous();
  const at::Tensor in = x.contiguous();
  const std::int64_t inner = weight.size(2);
  GroupedGluGemmArguments arguments = arguments_of(left, weight, ends, activation);
  GroupedGluGemmGradients gradients;
  gradients.x = at::empty_like(in);
  gradients.y = at::empty({left.size(0), inner}, left.options());
  gradients.dots =
      at::empty({left.size(0), grouped_glu_gemm_parts(inner)}, left.options().dtype(at::kFloat));
  arguments.inner = static_cast<int>(inner);
  arguments.x = const_cast<void*>(in.const_data_ptr());
  arguments.y = gradients.y.data_ptr();
  arguments.dx = gradients.x.data_ptr();
  arguments.dots = gradients.dots.data_ptr<float>();
  launch_grouped_glu_gemm_backward(arguments, current_stream(left));
  return gradients;
}

}  // namespace packtrain
