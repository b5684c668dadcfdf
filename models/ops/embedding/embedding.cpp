#include "models/ops/embedding/embedding.h"

#include <ATen/ops/embedding.h>
#include <ATen/ops/embedding_dense_backward.h>

#include "models/ops/gradient.h"

namespace packtrain {

at::Tensor embedding_forward(const at::Tensor& ids, const Parameter& weight) {
  return at::embedding(weight.value, ids);
}

void embedding_backward(const at::Tensor& grad_output, const at::Tensor& ids,
                        const Parameter& weight) {
  if (!weight.grad.defined()) {
    return;
  }
  // The CPU operator sums in the dtype given, CUDA's widens by itself.
  const at::Tensor grad = grad_output.is_cpu() ? grad_output.to(at::kFloat) : grad_output;
  const at::Tensor dense =
      at::embedding_dense_backward(grad, ids, weight.value.size(0), /*padding_idx=*/-1,
                                   /*scale_grad_by_freq=*/false);
  write_gradient(weight, dense);
}

}  // namespace packtrain
