#include "models/objectives/next_token.h"

#include <ATen/ops/mul.h>

namespace packtrain {

ObjectiveValue NextToken::evaluate(const DeviceBatch& batch, const at::Tensor& row_losses) const {
  return {at::mul(row_losses, batch.loss_weight).sum(), batch.loss_weight};
}

}  // namespace packtrain
