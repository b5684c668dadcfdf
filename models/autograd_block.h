// A block whose backward is found by libtorch's autograd: forward and backward are one closed
// segment with a detached leaf, so that no graph reaches from block to block and the driver keeps
// the order in its own hands.
#pragma once

#include <string>
#include <vector>

#include "models/block.h"

namespace packtrain {

class AutogradBlock : public Block {
 public:
  // `recompute`: keep only x and run compute() again in backward.
  AutogradBlock(std::string name, std::vector<ParameterSpec> parameters, bool recompute);

  const std::string& name() const final { return name_; }
  const std::vector<ParameterSpec>& parameters() const final { return parameters_; }

  BlockOutput forward(std::span<const Parameter> parameters, const DeviceBatch& batch,
                      const at::Tensor& x, bool training) const final;
  at::Tensor backward(std::span<const Parameter> parameters, const DeviceBatch& batch,
                      std::unique_ptr<Tape> tape, const at::Tensor& grad_output) const final;

 protected:
  // The block's function of x, made of operators of models/ops. They write weight gradients through
  // `parameters`, which stay where they are until the backward has run, as does `batch`.
  virtual at::Tensor compute(std::span<const Parameter> parameters, const DeviceBatch& batch,
                             const at::Tensor& x) const = 0;

 private:
  std::string name_;
  std::vector<ParameterSpec> parameters_;
  bool recompute_;
};

}  // namespace packtrain
