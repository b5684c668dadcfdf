#include "models/ops/experts/expert_linear.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/eq.h>

#include "models/ops/experts/grouped_matmul.h"
#include "models/ops/experts/slots.h"
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

// d b[e] = sum over a in e of grad[a], as a product with a matrix that says which a these are.
void write_bias_gradient(const Parameter& bias, const at::Tensor& grad, const ExpertOrder& order) {
  if (!bias.grad.defined()) return;
  const at::Tensor all = at::arange(bias.value.size(0), order.ends.options());
  const at::Tensor belongs = at::eq(all.unsqueeze(1), experts_of(order).unsqueeze(0));
  write_gradient_gemm(bias, belongs.to(grad.scalar_type()), grad);
}

}  // namespace

at::Tensor dispatch_forward(const at::Tensor& x, const ExpertOrder& order,
                            const ExpertProjection& projection) {
  return grouped_linear(slot_spread(x, order.places, {}), order, projection);
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
    const at::Tensor copies = slot_spread(x, order.places, {});
    grouped_weight_gradient(*projection.weight, grad_output, copies, order.ends);
  }
  if (projection.bias != nullptr) write_bias_gradient(*projection.bias, grad_output, order);
}

at::Tensor combine_forward(const at::Tensor& h, const at::Tensor& weights, const ExpertOrder& order,
                           const ExpertProjection& projection, const at::Tensor& residual) {
  return slot_sum(grouped_linear(h, order, projection), order.places, weights, residual);
}

CombineGradients combine_backward_input(const at::Tensor& grad_output, const at::Tensor& weights,
                                        const ExpertOrder& order,
                                        const ExpertProjection& projection) {
  CombineGradients gradients;
  gradients.output = slot_spread(grad_output, order.places, weights);
  gradients.h = grouped_matmul(gradients.output, projection.weight->value, order.ends);
  return gradients;
}

at::Tensor combine_backward_weight(const CombineGradients& gradients, const at::Tensor& h,
                                   const at::Tensor& weights, const ExpertOrder& order,
                                   const ExpertProjection& projection) {
  at::Tensor grad_weights = slot_dot(gradients.h, h, order.places, weights);
  grouped_weight_gradient(*projection.weight, gradients.output, h, order.ends);
  if (projection.bias != nullptr) {
    const at::Tensor bias = projection.bias->value.index_select(0, experts_of(order));
    grad_weights.add_(slot_dot(gradients.output, bias, order.places, weights));
    write_bias_gradient(*projection.bias, gradients.output, order);
  }
  return grad_weights;
}

}  // namespace packtrain
