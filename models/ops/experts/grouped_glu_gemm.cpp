#include "models/ops/experts/grouped_glu_gemm.h"

#include <ATen/ops/empty_like.h>

#include "models/ops/experts/grouped_matmul.h"
#include "models/ops/experts/permute.h"

namespace packtrain {
namespace {

bool in_one_launch(const at::Tensor& rows, const at::Tensor& weight, std::int64_t inner,
                   const Activation& activation) {
  return !grouped_glu_gemm_materializes_grad(rows.is_cuda(), rows.scalar_type(), activation,
                                             rows.size(1), inner) &&
         rows.size(0) > 0 && weight.is_contiguous() && has_grouped_glu_gemm_cuda();
}

}  // namespace

bool grouped_glu_gemm_materializes_grad(bool on_gpu, at::ScalarType dtype,
                                        const Activation& activation, std::int64_t width,
                                        std::int64_t inner) {
  constexpr std::int64_t kDepth = 64;
  constexpr std::int64_t kAlignment = 8;
  return !on_gpu || dtype != at::kBFloat16 || !activation.gated ||
         activation.kind == ActivationKind::kSquaredRelu || width % kDepth != 0 ||
         inner % kAlignment != 0;
}

GroupedGluGemm grouped_glu_gemm_forward(const at::Tensor& rows, const at::Tensor& weight,
                                        const at::Tensor& ends, const Activation& activation,
                                        const GemmTiming& timing) {
  if (in_one_launch(rows, weight, weight.size(1) / 2, activation)) {
    return grouped_glu_gemm_forward_cuda(rows, weight, ends, activation);
  }
  GroupedGluGemm made;
  made.x = grouped_matmul(rows, weight.transpose(1, 2), ends, timing);
  made.y = activation_forward(made.x, activation);
  return made;
}

GroupedGluGemmGradients grouped_glu_gemm_backward(const at::Tensor& grad, const at::Tensor& weight,
                                                  const at::Tensor& x, const at::Tensor& ends,
                                                  const Activation& activation,
                                                  const GemmTiming& timing) {
  if (in_one_launch(grad, weight, weight.size(2), activation)) {
    return grouped_glu_gemm_backward_cuda(grad, weight, x, ends, activation);
  }
  return grouped_glu_gradients(grouped_matmul(grad, weight, ends, timing), x, activation);
}

GroupedGluGemmGradients grouped_glu_gradients(const at::Tensor& dy, const at::Tensor& x,
                                              const Activation& activation,
                                              const at::Tensor& amax) {
  GroupedGluGemmGradients gradients;
  gradients.y = at::empty_like(dy);
  gradients.x = activation_backward(dy, x, activation, gradients.y, amax);
  gradients.dots = grad_routing_weight(dy, gradients.y, /*permuted_rows=*/{}, /*divisors=*/{});
  return gradients;
}

}  // namespace packtrain
