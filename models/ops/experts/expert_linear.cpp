#include "models/ops/experts/expert_linear.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/eq.h>

#include <utility>

#include "models/ops/activation/activation.h"
#include "models/ops/experts/gated_rows.h"
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

ExpertsHidden dispatch_forward(const at::Tensor& x, const ExpertOrder& order,
                               const ExpertProjection& projection, const Activation& activation) {
  const at::Tensor copies = slot_spread(x, order.places, {});
  if (projection.bias == nullptr) {
    GatedRows made = gated_rows_forward(copies, projection.weight->value, order.ends, activation);
    return {std::move(made.x), std::move(made.y)};
  }
  ExpertsHidden made;
  made.u = grouped_linear(copies, order, projection);
  made.h = activation_forward(made.u, activation);
  return made;
}

at::Tensor dispatch_backward_input(const at::Tensor& grad_u, const ExpertOrder& order,
                                   const ExpertProjection& projection, const at::Tensor& sum) {
  const at::Tensor of_assignments = grouped_matmul(grad_u, projection.weight->value, order.ends);
  return slot_sum(of_assignments, order.places, {}, sum);
}

void dispatch_backward_weight(const at::Tensor& grad_u, const at::Tensor& x,
                              const ExpertOrder& order, const ExpertProjection& projection) {
  if (projection.weight->grad.defined()) {
    const at::Tensor copies = slot_spread(x, order.places, {});
    grouped_weight_gradient(*projection.weight, grad_u, copies, order.ends);
  }
  if (projection.bias != nullptr) write_bias_gradient(*projection.bias, grad_u, order);
}

at::Tensor combine_forward(const at::Tensor& h, const at::Tensor& weights, const ExpertOrder& order,
                           const ExpertProjection& projection, const at::Tensor& residual) {
  return slot_sum(grouped_linear(h, order, projection), order.places, weights, residual);
}

CombineGradients combine_backward(const at::Tensor& grad_output, const at::Tensor& u,
                                  const at::Tensor& weights, const ExpertOrder& order,
                                  const ExpertProjection& projection,
                                  const Activation& activation) {
  const at::Tensor grad = slot_spread(grad_output, order.places, weights);
  GatedRowGradients back =
      gated_rows_backward(grad, projection.weight->value, u, order.ends, activation);
  grouped_weight_gradient(*projection.weight, grad, back.y, order.ends);
  CombineGradients gradients;
  gradients.u = std::move(back.x);
  gradients.weights = slot_dot(back.dots, /*b=*/{}, order.places, weights);
  if (projection.bias != nullptr) {
    const at::Tensor bias = projection.bias->value.index_select(0, experts_of(order));
    gradients.weights.add_(slot_dot(grad, bias, order.places, weights));
    write_bias_gradient(*projection.bias, grad, order);
  }
  return gradients;
}

}  // namespace packtrain
