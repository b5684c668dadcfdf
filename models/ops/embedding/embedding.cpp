#include "models/ops/embedding/embedding.h"

#include <ATen/ops/embedding.h>
#include <ATen/ops/embedding_dense_backward.h>

#include "models/ops/gradient.h"

namespace packtrain {

at::Tensor embedding_forward(const at::Tensor& ids, const Parameter& weight) {
  if (ids.is_cuda()) return embedding_forward_cuda(ids, weight);
  return at::embedding(weight.value, ids);
}

void embedding_backward(const at::Tensor& grad_output, const at::Tensor& ids,
                        const Parameter& weight) {
  if (!weight.grad.defined()) return;
  if (ids.is_cuda()) return embedding_backward_cuda(grad_output, ids, weight);
  const at::Tensor dense = at::embedding_dense_backward(grad_output.to(at::kFloat), ids,
                                                        weight.value.size(0), /*padding_idx=*/-1,
                                                        /*scale_grad_by_freq=*/false);
  write_gradient(weight, dense);
}

}  // namespace packtrain
