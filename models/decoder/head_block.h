// The last block: final norm, projection to the vocabulary, and the objective's loss of the
// supervised rows.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "models/block/block.h"
#include "models/block/shape_tape.h"
#include "models/layers/decoder_config.h"
#include "models/objectives/objective.h"
#include "models/ops/linear/lora_linear.h"

namespace packtrain {

class HeadBlock final : public Block {
 public:
  // `parameters`: head_parameters(config).
  HeadBlock(std::vector<ParameterSpec> parameters, const DecoderConfig& config,
            std::shared_ptr<const Objective> objective);

  const std::string& name() const override { return name_; }
  const std::vector<ParameterSpec>& parameters() const override { return parameters_; }
  // x: the supervised rows [N, hidden] that the last layer returns. In training this also computes
  // the gradients, x's included, because the logits are not saved. It also computes the auxiliary
  // loss of experts, which is stored in the batch (routing_statistics.h) and not in the loss.
  BlockOutput forward(std::span<const Parameter> parameters, const BlockContext& context,
                      const at::Tensor& x) const override;
  at::Tensor backward(std::span<const Parameter> parameters, const BlockContext& context,
                      std::unique_ptr<Tape> tape, const at::Tensor& grad_output) const override;

 private:
  struct Weights;
  class Update;
  LoraDropout dropout(const DeviceBatch& batch) const;
  Weights weights(std::span<const Parameter> parameters) const;
  // Logits [rows, V] of normed rows [rows, hidden].
  at::Tensor logits(const Weights& weights, const Update& update, const at::Tensor& normed,
                    const GemmTiming& timing) const;

  std::string name_ = "head";
  std::vector<ParameterSpec> parameters_;
  NormConfig norm_;
  double logit_multiplier_;
  double soft_cap_;
  bool has_bias_;
  std::shared_ptr<const LoraModules> lora_;  // null: none
  double lora_dropout_;
  ExpertsConfig experts_;
  std::shared_ptr<const Objective> objective_;
};

// The head's parameters and its one operator, for estimates. HeadBlock runs it without a tape.
ShapeTape head_shapes(const DecoderConfig& config, const MicroBatchShape& size);

}  // namespace packtrain
