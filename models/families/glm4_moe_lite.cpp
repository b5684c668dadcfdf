#include "models/families/glm4_moe_lite.h"

#include <nlohmann/json.hpp>

#include "models/families/latent_layout.h"
#include "models/families/sigmoid_experts.h"

namespace packtrain {
namespace {

DecoderConfig parse_glm4_moe_lite(const nlohmann::json& json) {
  ConfigReader reader(json);
  DecoderConfig config;
  config.family = "glm4_moe_lite";
  reader.integer("num_key_value_heads");  // transformers' fallback is 20
  read_latent_layout(reader, config, {.max_positions = 202752, .epsilon = 1e-5},
                     {.query_rank = 768, .unturned_dim = 192, .value_dim = 256});
  config.interleaved_rotary = reader.boolean("rope_interleave", true);
  read_sigmoid_experts(reader, config,
                       {.num_experts = 64,
                        .intermediate_size = 1536,
                        .experts_per_token = 4,
                        .weight_multiplier = 1.8});
  read_mlp_layer_types(reader, config, 1);
  // Published models repeat it under the name of GLM-4.5.
  reader.require("first_k_dense_replace", num_first_dense_layers(config));
  reader.finish(other_names(config));
  return config;
}

nlohmann::json write_glm4_moe_lite(const DecoderConfig& config) {
  nlohmann::json json = write_latent_layout(config);
  json["architectures"] = {"Glm4MoeLiteForCausalLM"};
  json["model_type"] = "glm4_moe_lite";
  json["rope_interleave"] = config.interleaved_rotary;
  write_sigmoid_experts(config, json);
  write_mlp_layer_types(config, json);
  return json;
}

}  // namespace

Family glm4_moe_lite_family() {
  return {.model_type = "glm4_moe_lite",
          .parse = parse_glm4_moe_lite,
          .weights = sigmoid_expert_weights,
          .write = write_glm4_moe_lite,
          .other_weights = stacked_sigmoid_expert_weights};
}

}  // namespace packtrain
