// A block that can defer the part of backward that only its parameters' gradients need. The blocks
// before it can then start their backward earlier.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>

#include "models/block/block.h"

namespace packtrain {

class SplitBackward {
 public:
  virtual ~SplitBackward() = default;

  // As Block::backward, but gradients of parameters may be deferred. The tape is not consumed.
  virtual at::Tensor backward_input(std::span<const Parameter> parameters, Tape& tape,
                                    const at::Tensor& grad_output) const = 0;
  // Writes the deferred gradients to the `parameters` given to backward_input. Reads no weights.
  virtual void backward_weight(Tape& tape) const = 0;
};

}  // namespace packtrain
