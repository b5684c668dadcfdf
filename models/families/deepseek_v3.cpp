#include "models/families/deepseek_v3.h"

#include <nlohmann/json.hpp>

#include "models/families/latent_layout.h"
#include "models/families/sigmoid_experts.h"

namespace packtrain {
namespace {

DecoderConfig parse_deepseek_v3(const nlohmann::json& json) {
  ConfigReader reader(json);
  DecoderConfig config;
  config.family = "deepseek_v3";
  reader.integer("num_key_value_heads");  // transformers' fallback is 128
  read_latent_layout(reader, config, {.max_positions = 4096}, {});
  config.interleaved_rotary = reader.boolean("rope_interleave", true);
  read_sigmoid_experts(reader, config,
                       {.num_experts = 256,
                        .intermediate_size = 2048,
                        .num_groups = 8,
                        .groups_per_token = 4,
                        .weight_multiplier = 2.5});
  read_first_dense_layers(reader, config, 3);
  reader.require("moe_layer_freq", 1);
  // A loss that only DeepSeek's own training adds, and how experts are placed.
  reader.ignore({"aux_loss_alpha", "seq_aux", "ep_size"});
  reader.finish(other_names(config));
  return config;
}

nlohmann::json write_deepseek_v3(const DecoderConfig& config) {
  nlohmann::json json = write_latent_layout(config);
  json["architectures"] = {"DeepseekV3ForCausalLM"};
  json["model_type"] = "deepseek_v3";
  json["rope_interleave"] = config.interleaved_rotary;
  write_sigmoid_experts(config, json);
  // For programs that go by them, as published models have them.
  json["scoring_func"] = "sigmoid";
  json["topk_method"] = "noaux_tc";
  json["moe_layer_freq"] = 1;
  return json;
}

}  // namespace

Family deepseek_v3_family() {
  return {.model_type = "deepseek_v3",
          .parse = parse_deepseek_v3,
          .weights = sigmoid_expert_weights,
          .write = write_deepseek_v3,
          .other_weights = stacked_sigmoid_expert_weights};
}

}  // namespace packtrain
