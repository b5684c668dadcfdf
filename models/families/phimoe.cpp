#include "models/families/phimoe.h"

#include <nlohmann/json.hpp>

#include "models/families/expert_layout.h"
#include "models/families/layer_windows.h"
#include "models/families/llama_layout.h"
#include "models/families/mixtral.h"

namespace packtrain {
namespace {

constexpr const char* kEpsilon = "router_jitter_noise";

void read_experts_of_phimoe(ConfigReader& reader, DecoderConfig& config) {
  ExpertsConfig& experts = config.experts;
  experts.router = RouterKind::kSparseMixer;
  experts.num_experts = reader.integer("num_local_experts", 16);
  experts.intermediate_size = config.intermediate_size;
  reader.require("num_experts_per_tok", 2);
  read_experts_per_token(reader, config, 2);
  experts.experts_per_token = 2;  // transformers does not read the key
  experts.mixer_epsilon = reader.number(kEpsilon, 0.01);
  if (experts.mixer_epsilon < 0) reader.fail(kEpsilon, "must not be negative");
  reader.require("input_jitter_noise", 0);
  read_auxiliary_loss(reader, config);
  set_expert_layers(config, [](std::int64_t) { return true; });
}

DecoderConfig parse_phimoe(const nlohmann::json& json) {
  ConfigReader reader(json);
  DecoderConfig config;
  config.family = "phimoe";
  reader.integer("num_key_value_heads");
  read_llama_layout(
      reader, config,
      {.max_positions = 131072, .epsilon = 1e-5, .rotary = {.base = 1e6, .length_factors = true}});
  const RotaryScaling::Kind scaling = config.rotary.scaling.kind;
  if (scaling != RotaryScaling::Kind::kNone && scaling != RotaryScaling::Kind::kLongRope) {
    reader.reject("rope_scaling", "has a kind that this family does not: want longrope or none");
  }
  config.norm.kind = NormKind::kLayer;
  config.norm.has_bias = true;
  config.qkv_bias = reader.boolean("attention_bias", false);
  config.attention_output_bias = config.qkv_bias;
  config.head_bias = reader.boolean("lm_head_bias", false);
  read_experts_of_phimoe(reader, config);
  set_windows(config, reader.integer_or_none("sliding_window", 0),
              [](std::int64_t) { return true; });
  reader.finish(other_names(config));
  return config;
}

nlohmann::json write_phimoe(const DecoderConfig& config) {
  nlohmann::json json = write_llama_layout(config);
  json["architectures"] = {"PhimoeForCausalLM"};
  json["model_type"] = "phimoe";
  json["attention_bias"] = config.qkv_bias;
  json["lm_head_bias"] = config.head_bias;
  json["num_local_experts"] = config.experts.num_experts;
  json["num_experts_per_tok"] = config.experts.experts_per_token;
  json[kEpsilon] = config.experts.mixer_epsilon;
  json["input_jitter_noise"] = 0.0;
  json["sliding_window"] = nullptr;
  if (const std::int64_t window = window_of(config); window > 0) json["sliding_window"] = window;
  write_auxiliary_loss(config, json);
  const RotaryScaling& scaling = config.rotary.scaling;
  if (scaling.kind == RotaryScaling::Kind::kNone) return json;
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    json[key]["short_mscale"] = json[key]["long_mscale"] = scaling.attention_factor;
  }
  json["original_max_position_embeddings"] = scaling.original_max_positions;
  return json;
}

std::vector<WeightPiece> weights_of_phimoe(const DecoderConfig& config) {
  return llama_layout_weights(
      config, [&](WeightMap& map, std::int64_t layer) { add_mixtral_experts(map, config, layer); });
}

std::vector<std::vector<WeightPiece>> other_weights_of_phimoe(const DecoderConfig& config) {
  return {llama_layout_weights(config, [&](WeightMap& map, std::int64_t layer) {
    add_experts_stacked(map, config, layer,
                        {"mlp.router", "mlp.experts.gate_up_proj", "mlp.experts.down_proj"});
  })};
}

}  // namespace

Family phimoe_family() {
  return {.model_type = "phimoe",
          .parse = parse_phimoe,
          .weights = weights_of_phimoe,
          .write = write_phimoe,
          .other_weights = other_weights_of_phimoe};
}

}  // namespace packtrain
