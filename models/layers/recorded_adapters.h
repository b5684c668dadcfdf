// The low-rank updates that several adapters make to one linear layer, each to the rows of its own
// examples, recorded on the block's tape (ops/linear/lora_linear.h):
//    y[rows of a] += s[rows of a] B_a^T,  s = scale_a x[rows of a] A_a^T
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "models/block/operator_tape.h"
#include "models/layers/adapter_targets.h"
#include "models/ops/linear/fp8_lora_linear.h"

namespace packtrain {

class JoinedUpdates;

class RecordedAdapters {
 public:
  // Declares the parameters of NAME.weight's updates, and records the products with A on x. Adapter
  // number i of the batch has updates[i].
  RecordedAdapters(OperatorTape& tape, const std::string& name, Value x,
                   const std::vector<WeightUpdate>& updates);

  // s [rows, total rank of all adapters].
  Value s() const { return s_; }
  // The multiplications with an addition, if all rows are of the adapter with the most.
  std::int64_t multiply_adds(std::int64_t num_rows) const;
  // The layer's output. `weight` is not decoded yet. `bias` may be null, `residual` undefined.
  at::Tensor forward(OperatorContext& run, const at::Tensor& x, const Parameter& weight,
                     const Parameter* bias, const at::Tensor& residual) const;
  // The same where the weight's product has 8-bit operands: what it adds, and what it adds to the
  // gradient of x. The latter writes the gradients of all B and sets the gradient of s. With
  // dropout it adds nothing: add_dropped_backward_x() does.
  Fp8LoraForward fp8_forward(OperatorContext& run) const;
  Fp8LoraBackward fp8_backward(OperatorContext& run, const at::Tensor& grad_output) const;
  void add_dropped_backward_x(const OperatorContext& run, const at::Tensor& grad_s,
                              const at::Tensor& grad_x) const;
  // Writes the gradients of all B and sets the gradient of s. Returns the gradient of x: `sum` and
  // those of all products.
  at::Tensor backward(OperatorContext& run, const Parameter& weight, const at::Tensor& grad_output,
                      const at::Tensor& sum) const;

 private:
  // Writes the gradients of all B. Returns the gradient of s, and sets it.
  at::Tensor backward_low_rank(OperatorContext& run, const at::Tensor& grad_output) const;

  Value s_;
  std::shared_ptr<const JoinedUpdates> updates_;
};

}  // namespace packtrain
