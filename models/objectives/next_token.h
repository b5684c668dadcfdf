// Cross entropy of the next token: loss = sum_n weight_n cross_entropy_n over supervised rows, with
// DeviceBatch::loss_labels and loss_weight (cross_entropy.h).
#pragma once

#include "models/objectives/objective.h"

namespace packtrain {

class NextToken final : public Objective {
 public:
  bool takes_two_passes() const override { return false; }
  void evaluate(const HeadLogits& chunk, const DeviceBatch& batch, const at::Tensor& row_losses,
                bool gradients) const override;
  at::Tensor loss(const DeviceBatch& batch, const at::Tensor& row_losses) const override;
};

}  // namespace packtrain
