#include "models/families/qwen3_next.h"

#include <nlohmann/json.hpp>

#include "models/families/delta_net_layout.h"
#include "models/families/expert_layout.h"
#include "models/families/llama_layout.h"
#include "models/families/qwen_experts.h"
#include "models/families/rotary_config.h"

namespace packtrain {
namespace {

constexpr std::int64_t kExpertsOfQwen3Next = 512;
constexpr std::int64_t kTokenExpertsOfQwen3Next = 10;

DecoderConfig parse_qwen3_next(const nlohmann::json& json) {
  ConfigReader reader(json);
  DecoderConfig config;
  config.family = "qwen3_next";
  read_qwen3_next_layout(reader, config);
  read_qwen_experts(reader, config, /*normalized=*/true);
  read_gated_experts(reader, config, {kExpertsOfQwen3Next, kTokenExpertsOfQwen3Next});
  reader.finish(other_names(config));
  return config;
}

nlohmann::json write_qwen3_next(const DecoderConfig& config) {
  nlohmann::json json = write_llama_layout(config);
  json["architectures"] = {"Qwen3NextForCausalLM"};
  json["model_type"] = "qwen3_next";
  write_qwen3_next_layout(config, json);
  write_gated_experts(config, json);
  write_qwen_experts(config, json);
  return json;
}

std::vector<WeightPiece> map_qwen3_next(const DecoderConfig& config, bool stacked) {
  const auto experts = [&](WeightMap& map, std::int64_t layer) {
    stacked ? add_stacked_qwen_experts(map, config, layer) : add_qwen_experts(map, config, layer);
    add_gated_qwen_expert(map, config, layer);
  };
  const auto mixer = [&](WeightMap& map, std::int64_t layer) {
    add_delta_net_by_heads(map, config, layer);
  };
  return llama_layout_weights(config, AddLayerParts{.experts = experts, .mixer = mixer});
}

std::vector<WeightPiece> weights_of_qwen3_next(const DecoderConfig& config) {
  return map_qwen3_next(config, /*stacked=*/false);
}

std::vector<std::vector<WeightPiece>> other_weights_of_qwen3_next(const DecoderConfig& config) {
  return {map_qwen3_next(config, /*stacked=*/true)};
}

}  // namespace

void read_qwen3_next_layout(ConfigReader& reader, DecoderConfig& config, bool has_dense_layers) {
  reader.integer("num_key_value_heads");
  read_llama_layout(reader, config,
                    {.head_dim = 256,
                     .max_positions = 32768,
                     .has_dense_layers = has_dense_layers,
                     .rotary = {.partial_factor = 0.25, .position_parts = true}});
  config.norm.weight_offset = 1;
  config.qk_norm = QkNormKind::kHead;
  config.attention_gate = true;
  config.qkv_bias = reader.boolean("attention_bias", false);
  config.attention_output_bias = config.qkv_bias;
  read_delta_net(reader, config, {});
  read_mixer_interval(reader, config);
}

void read_gated_experts(ConfigReader& reader, DecoderConfig& config,
                        const GatedExpertsDefaults& defaults) {
  config.experts.num_experts = reader.integer("num_experts", defaults.num_experts);
  config.experts.intermediate_size = reader.integer("moe_intermediate_size", 512);
  config.experts.shared_intermediate_size = reader.integer("shared_expert_intermediate_size", 512);
  config.experts.shared_gate = true;
  read_experts_per_token(reader, config, defaults.experts_per_token);
}

void write_gated_experts(const DecoderConfig& config, nlohmann::json& json) {
  json["num_experts"] = config.experts.num_experts;
  json["num_experts_per_tok"] = config.experts.experts_per_token;
  json["moe_intermediate_size"] = config.experts.intermediate_size;
  json["shared_expert_intermediate_size"] = config.experts.shared_intermediate_size;
}

void write_qwen3_next_layout(const DecoderConfig& config, nlohmann::json& json) {
  json["attention_bias"] = config.qkv_bias;
  // The family's own fraction is less than 1.
  json["partial_rotary_factor"] = partial_rotary_factor(config);
  json["rope_parameters"]["partial_rotary_factor"] = partial_rotary_factor(config);
  if (json["rope_scaling"].is_object()) json["rope_scaling"] = json["rope_parameters"];
  write_delta_net(config, json);
}

Family qwen3_next_family() {
  return {.model_type = "qwen3_next",
          .parse = parse_qwen3_next,
          .weights = weights_of_qwen3_next,
          .write = write_qwen3_next,
          .other_weights = other_weights_of_qwen3_next,
          .prediction_prefix = "mtp."};
}

}  // namespace packtrain
