#include "models/ops/linear_cross_entropy/greedy.h"

#include <ATen/ops/argmax.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/isnan.h>

namespace packtrain {

void greedy_labels(const at::Tensor& logits, const at::Tensor& labels, const at::Tensor& greedy) {
  if (logits.size(0) == 0) return;
  if (logits.is_cuda()) {
    greedy_labels_cuda(logits, labels, greedy);
    return;
  }
  const at::Tensor is_best = at::eq(at::argmax(logits, 1), labels);
  const at::Tensor of_label = logits.gather(1, labels.to(at::kLong).unsqueeze(1)).squeeze(1);
  greedy.copy_(is_best.logical_and_(at::isnan(of_label).logical_not_()));
}

}  // namespace packtrain
