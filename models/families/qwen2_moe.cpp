#include "models/families/qwen2_moe.h"

#include <nlohmann/json.hpp>

#include "models/families/layer_windows.h"
#include "models/families/llama_layout.h"
#include "models/families/qwen_experts.h"

namespace packtrain {
namespace {

// Every second layer slides, starting with the first. This is transformers' fallback, which differs
// from Qwen2's.
void read_windows_of_qwen2_moe(ConfigReader& reader, DecoderConfig& config) {
  const bool is_used = reader.boolean("use_sliding_window", false);
  std::int64_t window = 0;
  if (is_used) {
    window = reader.integer_or_none("sliding_window", 4096);
  } else {
    reader.ignore({"sliding_window"});
  }
  const std::int64_t end = reader.count("max_window_layers", 28);
  read_layer_types(reader, config, window,
                   [&](std::int64_t layer) { return layer % 2 == 0 && layer < end; });
}

DecoderConfig parse_qwen2_moe(const nlohmann::json& json) {
  ConfigReader reader(json);
  DecoderConfig config;
  config.family = "qwen2_moe";
  reader.integer("num_key_value_heads");
  reader.integer("max_position_embeddings");
  read_llama_layout(reader, config);
  config.qkv_bias = reader.boolean("qkv_bias", true);
  read_qwen_experts(reader, config);
  config.experts.num_experts = reader.integer("num_experts", 60);
  config.experts.intermediate_size = reader.integer("moe_intermediate_size", 1408);
  config.experts.shared_intermediate_size = reader.integer("shared_expert_intermediate_size", 5632);
  config.experts.shared_gate = true;
  read_experts_per_token(reader, config, 4);
  read_windows_of_qwen2_moe(reader, config);
  reader.finish(other_names(config));
  return config;
}

nlohmann::json write_qwen2_moe(const DecoderConfig& config) {
  nlohmann::json json = write_llama_layout(config);
  json["architectures"] = {"Qwen2MoeForCausalLM"};
  json["model_type"] = "qwen2_moe";
  json["qkv_bias"] = config.qkv_bias;
  json["num_experts"] = config.experts.num_experts;
  json["moe_intermediate_size"] = config.experts.intermediate_size;
  json["shared_expert_intermediate_size"] = config.experts.shared_intermediate_size;
  write_qwen_experts(config, json);
  const std::int64_t window = window_of(config);
  json["use_sliding_window"] = window > 0;
  if (window > 0) json["sliding_window"] = window;
  json["layer_types"] = write_layer_types(config);
  return json;
}

std::vector<WeightPiece> weights_of_qwen2_moe(const DecoderConfig& config) {
  return llama_layout_weights(config, [&](WeightMap& map, std::int64_t layer) {
    add_qwen_experts(map, config, layer);
    add_gated_qwen_expert(map, config, layer);
  });
}

std::vector<std::vector<WeightPiece>> other_weights_of_qwen2_moe(const DecoderConfig& config) {
  return {llama_layout_weights(config, [&](WeightMap& map, std::int64_t layer) {
    add_stacked_qwen_experts(map, config, layer);
    add_gated_qwen_expert(map, config, layer);
  })};
}

}  // namespace

Family qwen2_moe_family() {
  return {.model_type = "qwen2_moe",
          .parse = parse_qwen2_moe,
          .weights = weights_of_qwen2_moe,
          .write = write_qwen2_moe,
          .other_weights = other_weights_of_qwen2_moe};
}

}  // namespace packtrain
