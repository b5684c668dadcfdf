#include "models/objectives/next_token.h"

#include <ATen/ops/mul.h>

#include "models/ops/linear_cross_entropy/cross_entropy.h"

namespace packtrain {

void NextToken::evaluate(const HeadLogits& chunk, const DeviceBatch& batch,
                         const at::Tensor& row_losses, bool gradients) const {
  const auto of_chunk = [&](const at::Tensor& rows) {
    return rows.narrow(0, chunk.begin, chunk.logits.size(0));
  };
  cross_entropy(chunk.logits,
                {.labels = of_chunk(batch.loss_labels),
                 .weights = of_chunk(batch.loss_weight),
                 .row_losses = of_chunk(row_losses)},
                gradients, {.soft_cap = chunk.soft_cap});
}

at::Tensor NextToken::loss(const DeviceBatch& batch, const at::Tensor& row_losses) const {
  return at::mul(row_losses, batch.loss_weight).sum();
}

}  // namespace packtrain
