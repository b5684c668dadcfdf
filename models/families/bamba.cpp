#include "models/families/bamba.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/families/llama_layout.h"
#include "models/families/mamba2_layout.h"
#include "models/families/rotary_config.h"

namespace packtrain {
namespace {

constexpr const char* kAttentionLayers = "attn_layer_indices";

void read_layers_of_bamba(ConfigReader& reader, DecoderConfig& config) {
  const std::vector<std::int64_t> attention = reader.counts(kAttentionLayers);
  config.layers.resize(static_cast<std::size_t>(config.num_layers));
  for (LayerPattern& layer : config.layers) layer.mamba2 = true;
  for (const std::int64_t layer : attention) {
    if (layer >= config.num_layers) {
      reader.fail(kAttentionLayers, "has " + std::to_string(layer) + ", want less than " +
                                        std::to_string(config.num_layers) + " (num_hidden_layers)");
    }
    config.layers[static_cast<std::size_t>(layer)].mamba2 = false;
  }
}

DecoderConfig parse_bamba(const nlohmann::json& json) {
  ConfigReader reader(json);
  DecoderConfig config;
  config.family = "bamba";
  reader.integer("num_key_value_heads");
  read_llama_layout(reader, config,
                    {.max_positions = 262144, .epsilon = 1e-5, .rotary = {.partial_factor = 0.5}});
  config.qkv_bias = reader.boolean("attention_bias", false);
  config.attention_output_bias = config.qkv_bias;
  config.mlp_bias = reader.boolean("mlp_bias", false);
  read_mamba2(reader, config, json);
  read_layers_of_bamba(reader, config);
  reader.require("z_loss_coefficient", 0.0);
  reader.ignore({"num_logits_to_keep"});
  reader.finish(other_names(config));
  return config;
}

nlohmann::json write_bamba(const DecoderConfig& config) {
  nlohmann::json json = write_llama_layout(config);
  json["architectures"] = {"BambaForCausalLM"};
  json["model_type"] = "bamba";
  json["attention_bias"] = config.qkv_bias;
  json["mlp_bias"] = config.mlp_bias;
  json["partial_rotary_factor"] = partial_rotary_factor(config);
  // The family's own fraction is less than 1.
  json["rope_parameters"]["partial_rotary_factor"] = partial_rotary_factor(config);
  if (json["rope_scaling"].is_object()) json["rope_scaling"] = json["rope_parameters"];
  json[kAttentionLayers] = nlohmann::json::array();
  for (std::int64_t layer = 0; layer < config.num_layers; ++layer) {
    if (!config.layer(layer).mamba2) json[kAttentionLayers].push_back(layer);
  }
  json["pad_token_id"] = nullptr;  // the family's default may be outside of the vocabulary
  write_mamba2(config, json);
  return json;
}

}  // namespace

Family bamba_family() {
  return {"bamba", parse_bamba, bamba_layout_weights, write_bamba};
}

}  // namespace packtrain
