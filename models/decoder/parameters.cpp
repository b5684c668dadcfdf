#include "models/decoder/parameters.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "models/decoder/head_block.h"
#include "models/decoder/layer_inputs.h"
#include "models/decoder/layer_operators.h"
#include "models/layers/declared_parameters.h"

namespace packtrain {
namespace {

// With an adapter, only it and the parameters that it names are trained.
std::vector<ParameterSpec> freeze_model(const DecoderConfig& config,
                                        std::vector<ParameterSpec> parameters) {
  if (config.adapter == nullptr) return parameters;
  for (ParameterSpec& parameter : parameters) {
    parameter.trainable =
        parameter.trainable && (parameter.in_adapter || config.is_trained(parameter.name));
  }
  return parameters;
}

}  // namespace

std::vector<ParameterSpec> embedding_parameters(const DecoderConfig& config) {
  ShapeTape tape({});
  declare_weight(tape, "embed.weight", {config.vocab_size, config.hidden_size},
                 config.initializer_range);
  if (const auto modules = config.lora_of("embed.weight")) {
    declare_lora(tape, "embed", *modules, config.vocab_size, config.adapter->name);
  }
  if (config.learned_positions) {
    declare_weight(tape, "positions.weight", {config.max_positions, config.hidden_size},
                   config.initializer_range);
  }
  if (config.layer_input_width > 0) declare_layer_inputs(tape, config);
  return freeze_model(config, tape.parameters());
}

std::vector<ParameterSpec> layer_parameters(const DecoderConfig& config, std::int64_t layer) {
  const std::string prefix = "layers." + std::to_string(layer) + ".";
  std::vector<ParameterSpec> parameters = layer_shapes(config, layer, {}).parameters();
  for (ParameterSpec& parameter : parameters) parameter.name = prefix + parameter.name;
  return freeze_model(config, std::move(parameters));
}

std::vector<ParameterSpec> head_parameters(const DecoderConfig& config) {
  return freeze_model(config, head_shapes(config, {}).parameters());
}

std::vector<ParameterSpec> all_parameters(const DecoderConfig& config) {
  std::vector<ParameterSpec> all = embedding_parameters(config);
  for (std::int64_t layer = 0; layer < config.num_layers; ++layer) {
    std::ranges::move(layer_parameters(config, layer), std::back_inserter(all));
  }
  for (ParameterSpec& parameter : head_parameters(config)) {
    if (parameter.name != all.front().name) all.push_back(std::move(parameter));
  }
  return all;
}

}  // namespace packtrain
