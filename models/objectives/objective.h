// An objective: the loss that the head computes from logits, and the gradient of the logits.
//
// It needs the rows of DeviceBatch::loss_index, N of them, which the last layer returns. The head
// computes their logits by chunks of rows and never has all of them (linear_loss.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "models/block/batch.h"

namespace packtrain {

// Logits of elements [begin, begin + n) of DeviceBatch::loss_index.
struct HeadLogits {
  at::Tensor
      logits;  // float32 or bfloat16 [n, V] before the soft cap, rows at multiples of 16 bytes
  std::int64_t begin = 0;
  double soft_cap = 0;  // c: logits are c tanh(logit / c); 0: no cap
};

class Objective {
 public:
  Objective() = default;
  virtual ~Objective() = default;
  Objective(const Objective&) = delete;
  Objective& operator=(const Objective&) = delete;

  // True if the gradient of a row's logits depends on losses of other rows. In training the head
  // then calls evaluate() for all chunks without gradients before it does so with gradients.
  virtual bool takes_two_passes() const = 0;
  // Writes the chunk's elements of `row_losses`, float32 [N], without the weights of the rows. The
  // elements of other chunks are those that this call has written in an earlier chunk or pass. If
  // `gradients` is set, it also overwrites the logits by their gradient of loss(). It must not wait
  // for the device.
  virtual void evaluate(const HeadLogits& chunk, const DeviceBatch& batch,
                        const at::Tensor& row_losses, bool gradients) const = 0;
  // The micro-batch's part of the step's loss, float32 []. The step sums these parts.
  virtual at::Tensor loss(const DeviceBatch& batch, const at::Tensor& row_losses) const = 0;
};

}  // namespace packtrain
