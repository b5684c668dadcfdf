#include "models/families/granitemoe.h"

#include <nlohmann/json.hpp>

#include "models/families/expert_layout.h"
#include "models/families/granite.h"
#include "models/families/llama_layout.h"

namespace packtrain {
namespace {

DecoderConfig parse_granitemoe(const nlohmann::json& json) {
  ConfigReader reader(json);
  DecoderConfig config;
  config.family = "granitemoe";
  read_granitemoe_layout(reader, config);
  reader.finish(other_names(config));
  return config;
}

nlohmann::json write_granitemoe(const DecoderConfig& config) {
  nlohmann::json json = write_granitemoe_layout(config);
  json["architectures"] = {"GraniteMoeForCausalLM"};
  json["model_type"] = "granitemoe";
  return json;
}

std::vector<WeightPiece> weights_of_granitemoe(const DecoderConfig& config) {
  return llama_layout_weights(
      config, [&](WeightMap& map, std::int64_t layer) { add_granite_experts(map, config, layer); });
}

std::vector<std::vector<WeightPiece>> other_weights_of_granitemoe(const DecoderConfig& config) {
  return {llama_layout_weights(config, [&](WeightMap& map, std::int64_t layer) {
    add_granite_expert_modules(map, config, layer);
  })};
}

}  // namespace

void read_granitemoe_layout(ConfigReader& reader, DecoderConfig& config) {
  read_llama_layout(reader, config);
  read_granite_multipliers(reader, config);
  config.qkv_bias = reader.boolean("attention_bias", false);
  config.attention_output_bias = config.qkv_bias;
  config.experts.num_experts = reader.integer("num_local_experts", 8);
  config.experts.intermediate_size = config.intermediate_size;
  config.experts.softmax_first = false;
  read_experts_per_token(reader, config, 2);
  read_auxiliary_loss(reader, config);
  set_expert_layers(config, [](std::int64_t) { return true; });
}

nlohmann::json write_granitemoe_layout(const DecoderConfig& config) {
  nlohmann::json json = write_llama_layout(config);
  json["attention_bias"] = config.qkv_bias;
  json["num_local_experts"] = config.experts.num_experts;
  json["num_experts_per_tok"] = config.experts.experts_per_token;
  write_granite_multipliers(config, json);
  write_auxiliary_loss(config, json);
  return json;
}

void add_granite_experts(WeightMap& map, const DecoderConfig& config, std::int64_t layer) {
  add_experts_stacked(map, config, layer,
                      {"block_sparse_moe.router.layer", "block_sparse_moe.input_linear.weight",
                       "block_sparse_moe.output_linear.weight"});
}

void add_granite_expert_modules(WeightMap& map, const DecoderConfig& config, std::int64_t layer) {
  add_experts_stacked(map, config, layer,
                      {"block_sparse_moe.router", "block_sparse_moe.experts.gate_up_proj",
                       "block_sparse_moe.experts.down_proj"});
}

Family granitemoe_family() {
  return {.model_type = "granitemoe",
          .parse = parse_granitemoe,
          .weights = weights_of_granitemoe,
          .write = write_granitemoe,
          .other_weights = other_weights_of_granitemoe};
}

}  // namespace packtrain
