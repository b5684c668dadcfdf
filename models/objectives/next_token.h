// Cross entropy of the next token: loss = sum_n DeviceBatch::loss_weight_n x row loss_n.
#pragma once

#include "models/objectives/objective.h"

namespace packtrain {

class NextToken final : public Objective {
 public:
  bool is_linear() const override { return true; }
  ObjectiveValue evaluate(const DeviceBatch& batch, const at::Tensor& row_losses) const override;
};

}  // namespace packtrain
