#include "models/ops/experts/expert_linear.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/mul.h>

#include "models/ops/experts/grouped_matmul.h"
#include "models/ops/experts/slot_sum.h"
#include "models/ops/gradient.h"

namespace packtrain {
namespace {

at::Tensor grouped_linear(const at::Tensor& rows, const ExpertOrder& order,
                          const ExpertProjection& projection) {
  at::Tensor y = grouped_matmul(rows, projection.weight->value.transpose(1, 2), order.ends);
  if (projection.bias != nullptr) {
    y.add_(projection.bias->value.index_select(0, experts_of(order)));
  }
  return y;
}

// d b[e] = sum over a in e of scale[a] grad[a], as a product with a matrix that says which a these
// are. `scale` [A] may be undefined.
void write_bias_gradient(const Parameter& bias, const at::Tensor& grad, const ExpertOrder& order,
                         const at::Tensor& scale) {
  if (!bias.grad.defined()) return;
  const at::Tensor all = at::arange(bias.value.size(0), order.ends.options());
  at::Tensor belongs =
      at::eq(all.unsqueeze(1), experts_of(order).unsqueeze(0)).to(grad.scalar_type());
  if (scale.defined()) belongs.mul_(scale);
  write_gradient_gemm(bias, belongs, grad);
}

// values [A, ...] times a float32 number each, in the dtype of the values.
at::Tensor scaled(const at::Tensor& values, const at::Tensor& scale) {
  at::Tensor product = at::empty_like(values);
  return at::mul_out(product, values, scale.unsqueeze(1));
}

at::Tensor dot_of_rows(const at::Tensor& a, const at::Tensor& b) {
  return at::mul(a, b).sum(at::IntArrayRef{1}, /*keepdim=*/false, at::kFloat);
}

}  // namespace

at::Tensor dispatch_forward(const at::Tensor& x, const ExpertOrder& order,
                            const ExpertProjection& projection) {
  return grouped_linear(sorted_rows(x, order), order, projection);
}

at::Tensor dispatch_backward_input(const at::Tensor& grad_output, const ExpertOrder& order,
                                   const ExpertProjection& projection, const at::Tensor& sum) {
  const at::Tensor of_assignments =
      grouped_matmul(grad_output, projection.weight->value, order.ends);
  return slot_sum(of_assignments, order.places, {}, sum);
}

void dispatch_backward_weight(const at::Tensor& grad_output, const at::Tensor& x,
                              const ExpertOrder& order, const ExpertProjection& projection) {
  if (projection.weight->grad.defined()) {
    grouped_weight_gradient(*projection.weight, grad_output, sorted_rows(x, order), order.ends);
  }
  if (projection.bias != nullptr) write_bias_gradient(*projection.bias, grad_output, order, {});
}

at::Tensor combine_forward(const at::Tensor& h, const at::Tensor& weights, const ExpertOrder& order,
                           const ExpertProjection& projection, const at::Tensor& residual) {
  return slot_sum(grouped_linear(h, order, projection), order.places, weights, residual);
}

CombineGradients combine_backward_input(const at::Tensor& grad_output, const at::Tensor& weights,
                                        const ExpertOrder& order,
                                        const ExpertProjection& projection) {
  CombineGradients gradients;
  gradients.output = sorted_rows(grad_output, order);
  gradients.share = grouped_matmul(gradients.output, projection.weight->value, order.ends);
  gradients.h = scaled(gradients.share, sorted_assignments(weights, order));
  return gradients;
}

at::Tensor combine_backward_weight(const CombineGradients& gradients, const at::Tensor& h,
                                   const at::Tensor& weights, const ExpertOrder& order,
                                   const ExpertProjection& projection) {
  const at::Tensor scale = sorted_assignments(weights, order);
  at::Tensor grad_weights = dot_of_rows(gradients.share, h);
  if (projection.weight->grad.defined()) {
    grouped_weight_gradient(*projection.weight, gradients.output, scaled(h, scale), order.ends);
  }
  if (projection.bias != nullptr) {
    const at::Tensor bias = projection.bias->value.index_select(0, experts_of(order));
    grad_weights.add_(dot_of_rows(gradients.output, bias));
    write_bias_gradient(*projection.bias, gradients.output, order, scale);
  }
  return grad_weights.index_select(0, order.places.reshape(-1)).view(order.places.sizes());
}

}  // namespace packtrain
