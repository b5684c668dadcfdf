// The last block: final norm, output projection and weighted cross-entropy of the supervised rows.
#pragma once

#include <string>
#include <vector>

#include "models/block.h"
#include "models/decoder_config.h"

namespace packtrain {

class HeadBlock final : public Block {
 public:
  // `parameters`: head_parameters(config).
  HeadBlock(std::vector<ParameterSpec> parameters, const DecoderConfig& config);

  const std::string& name() const override { return name_; }
  const std::vector<ParameterSpec>& parameters() const override { return parameters_; }
  // x: the supervised rows [N, hidden], as the last layer returns them. In training the gradients,
  // x's too, are found here: the logits are gone afterwards. The auxiliary loss of experts is found
  // here too, and lies with the batch (routing_statistics.h), apart from the loss.
  BlockOutput forward(std::span<const Parameter> parameters, const DeviceBatch& batch,
                      const at::Tensor& x, bool training) const override;
  at::Tensor backward(std::span<const Parameter> parameters, const DeviceBatch& batch,
                      std::unique_ptr<Tape> tape, const at::Tensor& grad_output) const override;

 private:
  struct Weights;
  Weights weights(std::span<const Parameter> parameters) const;
  // Of [rows, hidden] behind the norm: [rows, V].
  at::Tensor logits(const Weights& weights, const at::Tensor& normed) const;

  std::string name_ = "head";
  std::vector<ParameterSpec> parameters_;
  NormConfig norm_;
  double logit_multiplier_;
  double soft_cap_;
  ExpertsConfig experts_;
};

}  // namespace packtrain
