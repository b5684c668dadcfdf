#include "models/families/hy_v3.h"

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/families/expert_layout.h"
#include "models/families/llama_layout.h"
#include "models/families/qwen_experts.h"
#include "models/families/sigmoid_experts.h"

namespace packtrain {
namespace {

void read_experts_of_hy_v3(ConfigReader& reader, DecoderConfig& config) {
  ExpertsConfig& experts = config.experts;
  experts.router = RouterKind::kSigmoid;
  experts.choice_bias = true;
  experts.normalize_weights = true;
  experts.num_experts = reader.integer("num_experts", 192);
  experts.intermediate_size = reader.integer("moe_intermediate_size", 1536);
  experts.shared_intermediate_size =
      reader.integer("num_shared_experts", 1) * experts.intermediate_size;
  experts.shared_bias = config.mlp_bias;
  experts.weight_multiplier = reader.number("router_scaling_factor", 2.826);
  read_experts_per_token(reader, config, 8);
  read_mlp_layer_types(reader, config, /*num_dense=*/1);
  reader.require("output_router_logits", false);
  reader.ignore({"enable_moe_fp32_combine"});  // changes nothing but rounding
}

DecoderConfig parse_hy_v3(const nlohmann::json& json) {
  ConfigReader reader(json);
  DecoderConfig config;
  config.family = "hy_v3";
  reader.integer("num_key_value_heads");
  read_llama_layout(
      reader, config,
      {.head_dim = 128, .max_positions = 131072, .epsilon = 1e-5, .rotary = {.base = 11158840.0}});
  config.initializer_range = reader.number("initializer_range", 0.006);
  config.qk_norm = QkNormKind::kHead;
  config.qkv_bias = reader.boolean("attention_bias", false);
  config.attention_output_bias = config.qkv_bias;
  config.mlp_bias = reader.boolean("mlp_bias", false);
  read_experts_of_hy_v3(reader, config);
  reader.finish(other_names(config));
  return config;
}

nlohmann::json write_hy_v3(const DecoderConfig& config) {
  const ExpertsConfig& experts = config.experts;
  nlohmann::json json = write_llama_layout(config);
  json["architectures"] = {"HYV3ForCausalLM"};
  json["model_type"] = "hy_v3";
  json["attention_bias"] = config.qkv_bias;
  json["mlp_bias"] = config.mlp_bias;
  json["num_experts"] = experts.num_experts;
  json["num_experts_per_tok"] = experts.experts_per_token;
  json["moe_intermediate_size"] = experts.intermediate_size;
  json["num_shared_experts"] = experts.shared_intermediate_size / experts.intermediate_size;
  json["router_scaling_factor"] = experts.weight_multiplier;
  write_mlp_layer_types(config, json);
  return json;
}

void add_others_of_hy_v3(WeightMap& map, const DecoderConfig& config, std::int64_t layer,
                         const std::string& bias, const std::string& shared) {
  const std::string mlp = "layers." + std::to_string(layer) + ".mlp.";
  map.constant(mlp + "router.choice_bias", "model." + mlp + bias, {config.experts.num_experts});
  add_shared_expert(map, config, layer, "mlp." + shared);
}

// Names of published files.
std::vector<WeightPiece> weights_of_hy_v3(const DecoderConfig& config) {
  return llama_layout_weights(config, [&](WeightMap& map, std::int64_t layer) {
    add_experts_apart(map, config, layer,
                      {.router = "mlp.router.gate",
                       .experts = "mlp.experts",
                       .gate = "gate_proj",
                       .up = "up_proj",
                       .down = "down_proj"});
    add_others_of_hy_v3(map, config, layer, "expert_bias", "shared_mlp");
  });
}

// Names of transformers' modules.
std::vector<WeightPiece> modules_of_hy_v3(const DecoderConfig& config) {
  return llama_layout_weights(config, [&](WeightMap& map, std::int64_t layer) {
    add_stacked_qwen_experts(map, config, layer);
    add_others_of_hy_v3(map, config, layer, "e_score_correction_bias", "shared_experts");
  });
}

std::vector<std::vector<WeightPiece>> other_weights_of_hy_v3(const DecoderConfig& config) {
  return {modules_of_hy_v3(config)};
}

}  // namespace

Family hy_v3_family() {
  return {.model_type = "hy_v3",
          .parse = parse_hy_v3,
          .weights = weights_of_hy_v3,
          .write = write_hy_v3,
          .other_weights = other_weights_of_hy_v3,
          .modules = modules_of_hy_v3};
}

}  // namespace packtrain
