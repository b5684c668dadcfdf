// A block whose backward can leave for later what only its parameters' gradients wait for: blocks
// before it go on first, and so may what follows from theirs.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>

#include "models/block.h"

namespace packtrain {

class SplitBackward {
 public:
  virtual ~SplitBackward() = default;

  // As Block::backward, but the gradients of parameters may still be to come, and the tape is kept.
  virtual at::Tensor backward_input(std::span<const Parameter> parameters, Tape& tape,
                                    const at::Tensor& grad_output) const = 0;
  // Writes the gradients that are to come, to where `parameters` of backward_input lie; reads no
  // weights.
  virtual void backward_weight(Tape& tape) const = 0;
};

}  // namespace packtrain
