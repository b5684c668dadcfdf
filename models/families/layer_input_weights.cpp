#include "models/families/layer_input_weights.h"

#include <string>

namespace packtrain {

void add_inputs_of_layers(WeightMap& map, const DecoderConfig& config) {
  if (config.layer_input_width == 0) return;
  const std::int64_t width = config.layer_inputs_width();
  map.linear("per_layer_embed", "model.embed_tokens_per_layer", config.num_layer_input_rows(),
             width, false);
  map.linear("per_layer_projection", "model.per_layer_model_projection", width, config.hidden_size,
             false);
  map.norm("per_layer_norm", "model.per_layer_projection_norm", config.layer_input_width);
}

void add_layer_input(WeightMap& map, const DecoderConfig& config, std::int64_t layer) {
  const std::int64_t width = config.layer_input_width;
  if (width == 0) return;
  const std::string ours = "layers." + std::to_string(layer) + ".";
  const std::string theirs = "model." + ours;
  const std::int64_t hidden = config.hidden_size;
  map.linear(ours + "layer_input.gate", theirs + "per_layer_input_gate", width, hidden, false);
  map.linear(ours + "layer_input.output", theirs + "per_layer_projection", hidden, width, false);
  map.norm(ours + "layer_input_post_norm", theirs + "post_per_layer_input_norm", hidden);
}

}  // namespace packtrain
