// The last block: final norm, output projection and weighted cross-entropy of the supervised rows.
#pragma once

#include <string>
#include <vector>

#include "models/block.h"

namespace packtrain {

class HeadBlock final : public Block {
 public:
  HeadBlock(std::vector<ParameterSpec> parameters, double norm_epsilon);

  const std::string& name() const override { return name_; }
  const std::vector<ParameterSpec>& parameters() const override { return parameters_; }
  // x: the supervised rows [N, hidden], as the last layer returns them. In training the gradients,
  // x's too, are found here: the logits are gone afterwards.
  BlockOutput forward(std::span<const Parameter> parameters, const DeviceBatch& batch,
                      const at::Tensor& x, bool training) const override;
  at::Tensor backward(std::span<const Parameter> parameters, const DeviceBatch& batch,
                      std::unique_ptr<Tape> tape, const at::Tensor& grad_output) const override;

  // The logits [rows, V] of x [rows, hidden], as used by sampling and conformance tests.
  at::Tensor logits(std::span<const Parameter> parameters, const at::Tensor& x) const;

 private:
  std::string name_ = "head";
  std::vector<ParameterSpec> parameters_;
  double norm_epsilon_;
};

}  // namespace packtrain
