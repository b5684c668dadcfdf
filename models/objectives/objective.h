// An objective: the loss of a micro-batch as a function of its row losses.
//
// A row loss is -log p of the label of a supervised row. DeviceBatch::loss_index has these rows, N
// of them, which the last layer returns. The head computes row losses by chunks of rows. It
// multiplies the gradient of each row's logits by d loss / d row loss (linear_loss.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "models/block/batch.h"

namespace packtrain {

struct ObjectiveValue {
  // float32 []: the micro-batch's part of the step's loss. The step sums these parts.
  at::Tensor loss;
  at::Tensor gradient;  // float32 [N]: d loss / d row loss
};

// No function waits for the device. Each gives the same bits for the same input.
class Objective {
 public:
  Objective() = default;
  virtual ~Objective() = default;
  Objective(const Objective&) = delete;
  Objective& operator=(const Objective&) = delete;

  // True if the gradient is DeviceBatch::loss_weight for any row losses. The head then needs no row
  // losses before gradients.
  virtual bool is_linear() const = 0;
  // `row_losses`: float32 [N].
  virtual ObjectiveValue evaluate(const DeviceBatch& batch, const at::Tensor& row_losses) const = 0;

  // Names of the n values that a log shows next to the loss.
  virtual std::vector<std::string> statistics() const { return {}; }
  // float64 [2 n]. Element 2 i is the sum of value i in the micro-batch. Element 2 i + 1 is the
  // number of groups, examples or rows that have it. The caller sums both over micro-batches and
  // ranks. Their ratio is the value.
  virtual at::Tensor sums(const DeviceBatch& batch, const at::Tensor& row_losses) const;
};

}  // namespace packtrain
