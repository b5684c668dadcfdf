#include "models/families/glm4_moe_lite.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/families/latent_layout.h"
#include "models/families/sigmoid_experts.h"

namespace packtrain {
namespace {

constexpr const char* kMlpTypes = "mlp_layer_types";

void read_mlp_layer_types(ConfigReader& reader, DecoderConfig& config) {
  std::vector<std::string> types = reader.texts(kMlpTypes);
  if (types.empty()) {
    types.assign(static_cast<std::size_t>(config.num_layers), "sparse");
    types.front() = "dense";
  }
  if (std::ssize(types) != config.num_layers) {
    reader.fail(kMlpTypes, "has " + std::to_string(types.size()) + " layers, want " +
                               std::to_string(config.num_layers));
  }
  const auto is_known = [](const std::string& type) { return type == "dense" || type == "sparse"; };
  if (!std::ranges::all_of(types, is_known)) {
    reader.fail(kMlpTypes, "must be \"dense\" or \"sparse\" for each layer");
  }
  set_expert_layers(config, [&](std::int64_t layer) {
    return types[static_cast<std::size_t>(layer)] == "sparse";
  });
  // Published models repeat it under the name of GLM-4.5.
  reader.require("first_k_dense_replace", num_first_dense_layers(config));
}

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
  read_mlp_layer_types(reader, config);
  reader.finish(other_names(config));
  return config;
}

nlohmann::json write_glm4_moe_lite(const DecoderConfig& config) {
  nlohmann::json json = write_latent_layout(config);
  json["architectures"] = {"Glm4MoeLiteForCausalLM"};
  json["model_type"] = "glm4_moe_lite";
  json["rope_interleave"] = config.interleaved_rotary;
  write_sigmoid_experts(config, json);
  json[kMlpTypes] = nlohmann::json::array();
  for (std::int64_t layer = 0; layer < config.num_layers; ++layer) {
    json[kMlpTypes].push_back(config.layer(layer).experts ? "sparse" : "dense");
  }
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
