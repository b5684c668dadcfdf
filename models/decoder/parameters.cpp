#include "models/decoder/parameters.h"

#include <string>

#include "models/decoder/head_block.h"
#include "models/decoder/layer_operators.h"
#include "models/layers/declared_parameters.h"

namespace packtrain {

std::vector<ParameterSpec> embedding_parameters(const DecoderConfig& config) {
  ShapeTape tape({});
  declare_weight(tape, "embed.weight", {config.vocab_size, config.hidden_size},
                 config.initializer_range);
  return tape.parameters();
}

std::vector<ParameterSpec> layer_parameters(const DecoderConfig& config, std::int64_t layer) {
  const std::string prefix = "layers." + std::to_string(layer) + ".";
  std::vector<ParameterSpec> parameters = layer_shapes(config, layer, {}).parameters();
  for (ParameterSpec& parameter : parameters) parameter.name = prefix + parameter.name;
  return parameters;
}

std::vector<ParameterSpec> head_parameters(const DecoderConfig& config) {
  return head_shapes(config, {}).parameters();
}

}  // namespace packtrain
