#include "models/families/olmoe.h"

#include <nlohmann/json.hpp>

#include "models/families/llama_layout.h"
#include "models/families/qwen_experts.h"

namespace packtrain {
namespace {

DecoderConfig parse_olmoe(const nlohmann::json& json) {
  ConfigReader reader(json);
  DecoderConfig config;
  config.family = "olmoe";
  read_llama_layout(reader, config, {.max_positions = 4096, .epsilon = 1e-5});
  config.qkv_bias = reader.boolean("attention_bias", false);
  config.attention_output_bias = config.qkv_bias;
  config.qk_norm = QkNormKind::kFull;
  read_olmo_experts(reader, config, {.num_experts = 64, .experts_per_token = 8});
  reader.require("clip_qkv", nullptr);  // of normed heads, and in none of the published models
  reader.finish(other_names(config));
  return config;
}

nlohmann::json write_olmoe(const DecoderConfig& config) {
  nlohmann::json json = write_olmoe_layout(config);
  json["architectures"] = {"OlmoeForCausalLM"};
  json["model_type"] = "olmoe";
  return json;
}

}  // namespace

void read_olmo_experts(ConfigReader& reader, DecoderConfig& config, const ExpertsConfig& defaults) {
  config.experts.num_experts = reader.integer("num_experts", defaults.num_experts);
  config.experts.intermediate_size = config.intermediate_size;
  config.experts.normalize_weights = reader.boolean("norm_topk_prob", false);
  read_experts_per_token(reader, config, defaults.experts_per_token);
  read_auxiliary_loss(reader, config, 0.01);
  set_expert_layers(config, [](std::int64_t) { return true; });
}

nlohmann::json write_olmoe_layout(const DecoderConfig& config) {
  nlohmann::json json = write_llama_layout(config);
  json["attention_bias"] = config.qkv_bias;
  json["num_experts"] = config.experts.num_experts;
  json["num_experts_per_tok"] = config.experts.experts_per_token;
  json["norm_topk_prob"] = config.experts.normalize_weights;
  write_auxiliary_loss(config, json);
  json["pad_token_id"] = nullptr;  // the families' default is a token of the vocabulary
  return json;
}

Family olmoe_family() {
  return {.model_type = "olmoe",
          .parse = parse_olmoe,
          .weights = qwen_expert_weights,
          .write = write_olmoe,
          .other_weights = stacked_qwen_expert_weights};
}

}  // namespace packtrain
