// The first block: embeds token ids.
#pragma once

#include <string>
#include <vector>

#include "models/block/block.h"

namespace packtrain {

class EmbeddingBlock final : public Block {
 public:
  // Embedded rows are multiplied by `multiplier`.
  EmbeddingBlock(std::vector<ParameterSpec> parameters, double multiplier);

  const std::string& name() const override { return name_; }
  const std::vector<ParameterSpec>& parameters() const override { return parameters_; }
  BlockOutput forward(std::span<const Parameter> parameters, const BlockContext& context,
                      const at::Tensor& x) const override;
  at::Tensor backward(std::span<const Parameter> parameters, const BlockContext& context,
                      std::unique_ptr<Tape> tape, const at::Tensor& grad_output) const override;

 private:
  std::string name_ = "embed";
  std::vector<ParameterSpec> parameters_;
  double multiplier_;
};

}  // namespace packtrain
