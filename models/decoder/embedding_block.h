// The first block: embeds token ids.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "models/block/block.h"
#include "models/decoder/layer_inputs.h"
#include "models/layers/decoder_config.h"

namespace packtrain {

class EmbeddingBlock final : public Block {
 public:
  // `parameters`: embedding_parameters(config). Embedded rows are multiplied by
  // config.embedding_multiplier. With learned positions each row adds that of its position. Pads
  // beyond the last position have the last one. Also computes the inputs of layers, if they have
  // any (layer_inputs.h).
  EmbeddingBlock(std::vector<ParameterSpec> parameters, const DecoderConfig& config);

  const std::string& name() const override { return name_; }
  const std::vector<ParameterSpec>& parameters() const override { return parameters_; }
  BlockOutput forward(std::span<const Parameter> parameters, const BlockContext& context,
                      const at::Tensor& x) const override;
  at::Tensor backward(std::span<const Parameter> parameters, const BlockContext& context,
                      std::unique_ptr<Tape> tape, const at::Tensor& grad_output) const override;

 private:
  // The rows of tokens, without positions.
  at::Tensor embed(std::span<const Parameter> parameters, const BlockContext& context) const;
  // The last ones.
  std::span<const Parameter> of_layer_inputs(std::span<const Parameter> parameters) const {
    return parameters.last(LayerInputs::kNumParameters);
  }

  std::string name_ = "embed";
  std::vector<ParameterSpec> parameters_;
  double multiplier_;
  std::int64_t num_positions_;               // learned; 0: none
  std::shared_ptr<const LoraModules> lora_;  // null: none
  LayerInputs layer_inputs_;
};

}  // namespace packtrain
