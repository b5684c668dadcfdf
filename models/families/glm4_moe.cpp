#include "models/families/glm4_moe.h"

#include <nlohmann/json.hpp>

#include "models/families/llama_layout.h"
#include "models/families/sigmoid_experts.h"

namespace packtrain {
namespace {

DecoderConfig parse_glm4_moe(const nlohmann::json& json) {
  ConfigReader reader(json);
  DecoderConfig config;
  config.family = "glm4_moe";
  reader.integer("num_key_value_heads");
  read_llama_layout(reader, config,
                    {.max_positions = 131072, .epsilon = 1e-5, .rotary = {.partial_factor = 0.5}});
  config.qkv_bias = reader.boolean("attention_bias", false);
  if (reader.boolean("use_qk_norm", false)) config.qk_norm = QkNormKind::kHead;
  read_sigmoid_experts(reader, config, {});
  read_first_dense_layers(reader, config, 1);
  reader.finish(other_names(config));
  return config;
}

nlohmann::json write_glm4_moe(const DecoderConfig& config) {
  nlohmann::json json = write_llama_layout(config);
  json["architectures"] = {"Glm4MoeForCausalLM"};
  json["model_type"] = "glm4_moe";
  json["attention_bias"] = config.qkv_bias;
  json["use_qk_norm"] = config.qk_norm == QkNormKind::kHead;
  json["partial_rotary_factor"] = partial_rotary_factor(config);
  json["rope_parameters"]["partial_rotary_factor"] = partial_rotary_factor(config);
  write_sigmoid_experts(config, json);
  return json;
}

}  // namespace

Family glm4_moe_family() {
  return {.model_type = "glm4_moe",
          .parse = parse_glm4_moe,
          .weights = sigmoid_expert_weights,
          .write = write_glm4_moe,
          .other_weights = stacked_sigmoid_expert_weights};
}

}  // namespace packtrain
