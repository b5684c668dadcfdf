#include "models/ops/linear_cross_entropy/cross_entropy.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/tanh.h>

namespace packtrain {
namespace {

void cross_entropy_cpu(const at::Tensor& logits, const CrossEntropyTargets& targets,
                       const CrossEntropyOptions& options) {
  at::Tensor s = logits.to(at::kFloat);
  if (options.soft_cap > 0) s = at::tanh(s / options.soft_cap).mul_(options.soft_cap);
  const at::Tensor labels = targets.labels.to(at::kLong).unsqueeze(1);
  const at::Tensor log_sum = at::logsumexp(s, at::IntArrayRef{1}, /*keepdim=*/true);
  const at::Tensor losses = log_sum - at::gather(s, 1, labels);
  targets.row_losses.copy_(losses.squeeze(1));
  if (!targets.weights.defined()) return;
  const at::Tensor weights = targets.weights.unsqueeze(1);
  at::Tensor gradient = (s - log_sum).exp_().mul_(weights);
  gradient.scatter_add_(1, labels, weights.neg());
  if (options.soft_cap > 0) gradient.mul_(1 - (s / options.soft_cap).square());
  logits.copy_(gradient);
}

}  // namespace

void cross_entropy(const at::Tensor& logits, const CrossEntropyTargets& targets,
                   const CrossEntropyOptions& options) {
  if (logits.is_cuda()) {
    cross_entropy_cuda(logits, targets, options);
  } else {
    cross_entropy_cpu(logits, targets, options);
  }
}

}  // namespace packtrain
