#include "models/ops/experts/expert_linear.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/eq.h>

#include <utility>

#include "models/ops/activation/activation.h"
#include "models/ops/experts/fp8_expert_product.h"
#include "models/ops/experts/grouped_glu_gemm.h"
#include "models/ops/experts/grouped_matmul.h"
#include "models/ops/experts/permute.h"
#include "models/ops/fp8/fp8.h"
#include "models/ops/gradient.h"

namespace packtrain {
namespace {

at::Tensor with_bias(at::Tensor y, const TokenPermutation& order,
                     const ExpertProjection& projection) {
  if (projection.bias == nullptr) return y;
  return y.add_(projection.bias->value.index_select(0, experts_of(order)));
}

at::Tensor grouped_linear(const at::Tensor& rows, const TokenPermutation& order,
                          const ExpertProjection& projection) {
  at::Tensor y = with_bias(
      grouped_matmul(rows, projection.weight->value.transpose(1, 2), order.ends, projection.timing),
      order, projection);
  if (projection.has_lora()) {
    add_expert_update(y, rows, order.ends, projection.lora, projection.timing);
  }
  return y;
}

// Codes of tokens are permuted. Weighted copies have codes of their own.
at::Tensor fp8_projected(const at::Tensor& x, const at::Tensor& x_amax,
                         const TokenPermutation& order, const ExpertProjection& projection) {
  const Parameter& weight = *projection.weight;
  if (!projection.input_weights.defined()) {
    return fp8_expert_forward(x, x_amax, weight, order, projection.timing);
  }
  const at::Tensor copies = permute_rows(x, order.permuted_rows, projection.input_weights);
  return fp8_expert_forward(copies, /*amax=*/{}, weight, order.ends, projection.timing);
}

// d b[e] = sum over a in e of grad[a], as a product with a 0/1 matrix of the rows of each expert.
void write_bias_gradient(const ExpertProjection& projection, const at::Tensor& grad,
                         const TokenPermutation& order) {
  if (projection.bias == nullptr || !projection.bias->grad.defined()) return;
  const Parameter& bias = *projection.bias;
  const at::Tensor all = at::arange(bias.value.size(0), order.ends.options());
  const at::Tensor belongs = at::eq(all.unsqueeze(1), experts_of(order).unsqueeze(0));
  write_gradient_gemm(bias, belongs.to(grad.scalar_type()), grad, projection.timing);
}

// The gradients of a projection's rows and of the activation before them. Writes those of the
// low-rank update.
GroupedGluGemmGradients activation_gradients(const at::Tensor& grad, const at::Tensor& u,
                                             const TokenPermutation& order,
                                             const ExpertProjection& projection,
                                             const Activation& activation,
                                             const at::Tensor& u_amax) {
  const at::Tensor& weight = projection.weight->value;
  const GemmTiming& timing = projection.timing;
  if (projection.in_fp8) {
    const at::Tensor dh =
        fp8_expert_backward_input(grad, /*amax=*/{}, *projection.weight, order.ends, timing);
    return grouped_glu_gradients(dh, u, activation, u_amax);
  }
  if (!projection.has_lora()) {
    return grouped_glu_gemm_backward(grad, weight, u, order.ends, activation, timing);
  }
  const ExpertLora& lora = projection.lora;
  const at::Tensor low = expert_lora_backward_low_rank(grad, order.ends, lora, timing);
  const at::Tensor dh = grouped_matmul(grad, weight, order.ends, timing);
  add_expert_lora_input_gradient(dh, low, order.ends, lora, timing);
  GroupedGluGemmGradients gradients = grouped_glu_gradients(dh, u, activation);
  expert_lora_backward_weight(grad, low, gradients.y, order.ends, lora, timing);
  return gradients;
}

}  // namespace

ExpertsHidden dispatch_forward(const at::Tensor& x, const TokenPermutation& order,
                               const ExpertProjection& projection, const Activation& activation,
                               const at::Tensor& x_amax) {
  if (projection.in_fp8) {
    ExpertsHidden made;
    made.u = with_bias(fp8_projected(x, x_amax, order, projection), order, projection);
    made.h_amax = make_fp8_amax(x);
    made.h = activation_forward(made.u, activation, made.h_amax);
    return made;
  }
  const at::Tensor copies = permute_rows(x, order.permuted_rows, projection.input_weights);
  if (projection.bias == nullptr && !projection.has_lora()) {
    GroupedGluGemm made = grouped_glu_gemm_forward(copies, projection.weight->value, order.ends,
                                                   activation, projection.timing);
    return {std::move(made.x), std::move(made.y), {}};
  }
  ExpertsHidden made;
  made.u = grouped_linear(copies, order, projection);
  made.h = activation_forward(made.u, activation);
  return made;
}

at::Tensor dispatch_backward_low_rank(const at::Tensor& grad_u, const TokenPermutation& order,
                                      const ExpertProjection& projection) {
  if (!projection.has_lora()) return {};
  return expert_lora_backward_low_rank(grad_u, order.ends, projection.lora, projection.timing);
}

at::Tensor dispatch_backward_input(const at::Tensor& grad_u, const at::Tensor& grad_low_rank,
                                   const TokenPermutation& order,
                                   const ExpertProjection& projection, const at::Tensor& sum,
                                   const at::Tensor& grad_u_amax) {
  const at::Tensor of_assignments =
      projection.in_fp8
          ? fp8_expert_backward_input(grad_u, grad_u_amax, *projection.weight, order.ends,
                                      projection.timing)
          : grouped_matmul(grad_u, projection.weight->value, order.ends, projection.timing);
  if (projection.has_lora()) {
    add_expert_lora_input_gradient(of_assignments, grad_low_rank, order.ends, projection.lora,
                                   projection.timing);
  }
  return unpermute_sum(of_assignments, order.permuted_rows, projection.input_weights, sum);
}

void dispatch_backward_weight(const at::Tensor& grad_u, const at::Tensor& grad_low_rank,
                              const at::Tensor& x, const TokenPermutation& order,
                              const ExpertProjection& projection) {
  if (projection.weight->grad.defined() || projection.has_lora()) {
    const at::Tensor copies = permute_rows(x, order.permuted_rows, projection.input_weights);
    grouped_weight_gradient(*projection.weight, grad_u, copies, order.ends, projection.timing);
    if (projection.has_lora()) {
      expert_lora_backward_weight(grad_u, grad_low_rank, copies, order.ends, projection.lora,
                                  projection.timing);
    }
  }
  write_bias_gradient(projection, grad_u, order);
}

at::Tensor combine_forward(const at::Tensor& h, const at::Tensor& weights,
                           const TokenPermutation& order, const ExpertProjection& projection,
                           const at::Tensor& residual, const at::Tensor& h_amax) {
  const at::Tensor y = projection.in_fp8
                           ? with_bias(fp8_expert_forward(h, h_amax, *projection.weight, order.ends,
                                                          projection.timing),
                                       order, projection)
                           : grouped_linear(h, order, projection);
  return unpermute_sum(y, order.permuted_rows, weights, residual);
}

CombineGradients combine_backward(const at::Tensor& grad_output, const at::Tensor& u,
                                  const at::Tensor& weights, const TokenPermutation& order,
                                  const ExpertProjection& projection,
                                  const Activation& activation) {
  const at::Tensor grad = permute_rows(grad_output, order.permuted_rows, weights);
  const at::Tensor u_amax = projection.in_fp8 ? make_fp8_amax(grad) : at::Tensor();
  GroupedGluGemmGradients back =
      activation_gradients(grad, u, order, projection, activation, u_amax);
  grouped_weight_gradient(*projection.weight, grad, back.y, order.ends, projection.timing);
  CombineGradients gradients;
  gradients.u_amax = u_amax;
  if (const at::Tensor& of_inputs = projection.input_weights; of_inputs.defined()) {
    gradients.weights = grad_routing_weight(back.x, u, order.permuted_rows, of_inputs);
    gradients.u = std::move(back.x);
    return gradients;
  }
  gradients.u = std::move(back.x);
  gradients.weights = grad_routing_weight(back.dots, /*b=*/{}, order.permuted_rows, weights);
  if (projection.bias != nullptr) {
    const at::Tensor bias = projection.bias->value.index_select(0, experts_of(order));
    gradients.weights.add_(grad_routing_weight(grad, bias, order.permuted_rows, weights));
  }
  write_bias_gradient(projection, grad, order);
  return gradients;
}

}  // namespace packtrain
