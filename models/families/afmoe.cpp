#include "models/families/afmoe.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/families/expert_layout.h"
#include "models/families/layer_windows.h"
#include "models/families/llama_layout.h"
#include "models/families/sigmoid_experts.h"

namespace packtrain {
namespace {

constexpr std::int64_t kWindowOfAfmoe = 1024;  // default of the key

void read_experts_of_afmoe(ConfigReader& reader, DecoderConfig& config) {
  ExpertsConfig& experts = config.experts;
  experts.router = RouterKind::kSigmoid;
  experts.choice_bias = true;
  experts.normalize_weights = true;
  experts.num_experts = reader.integer("num_experts", 64);
  experts.intermediate_size = reader.integer("moe_intermediate_size", 1408);
  experts.shared_intermediate_size =
      reader.integer("num_shared_experts", 2) * experts.intermediate_size;
  experts.weight_multiplier = reader.number("route_scale", 1.0);
  read_experts_per_token(reader, config, 6);
  const std::int64_t num_dense = reader.count("num_dense_layers", 1);
  set_expert_layers(config, [&](std::int64_t layer) { return layer >= num_dense; });
  // transformers reads none of these. The models' own code does.
  reader.require("score_func", "sigmoid");
  reader.require("route_norm", true);
  for (const char* key : {"n_group", "topk_group", "num_expert_groups", "num_limited_groups"}) {
    reader.require(key, 1);
  }
  reader.ignore({"load_balance_coeff"});  // how their training moved the bias
  reader.require("output_router_logits", false);
}

void read_windows_of_afmoe(ConfigReader& reader, DecoderConfig& config) {
  const std::int64_t period = reader.integer("global_attn_every_n_layers", 4);
  read_layer_types(reader, config, reader.integer_or_none("sliding_window", kWindowOfAfmoe),
                   [&](std::int64_t layer) { return (layer + 1) % period != 0; });
  set_rotary_layers(config,
                    [&](std::int64_t layer) { return !config.layer(layer).attention.is_full(); });
}

double multiplier_of_mup(const DecoderConfig& config) {
  return std::sqrt(static_cast<double>(config.hidden_size));
}

DecoderConfig parse_afmoe(const nlohmann::json& json) {
  ConfigReader reader(json);
  DecoderConfig config;
  config.family = "afmoe";
  read_llama_layout(reader, config, {.head_dim = 128, .max_positions = 16384, .epsilon = 1e-5});
  config.norm_after = true;
  config.qk_norm = QkNormKind::kHead;
  config.attention_gate = true;
  reader.require("attention_bias", false);  // of queries, but not of the gate
  if (reader.boolean("mup_enabled", false)) {
    config.embedding_multiplier = multiplier_of_mup(config);
  }
  read_windows_of_afmoe(reader, config);
  read_experts_of_afmoe(reader, config);
  reader.ignore({"use_grouped_mm"});
  reader.finish(other_names(config));
  return config;
}

nlohmann::json write_afmoe(const DecoderConfig& config) {
  const ExpertsConfig& experts = config.experts;
  nlohmann::json json = write_llama_layout(config);
  json["architectures"] = {"AfmoeForCausalLM"};
  json["model_type"] = "afmoe";
  json["mup_enabled"] = config.embedding_multiplier != 1.0;
  write_layer_types(config, kWindowOfAfmoe, json);
  json["num_experts"] = experts.num_experts;
  json["num_experts_per_tok"] = experts.experts_per_token;
  json["moe_intermediate_size"] = experts.intermediate_size;
  json["num_shared_experts"] = experts.shared_intermediate_size / experts.intermediate_size;
  json["route_scale"] = experts.weight_multiplier;
  json["num_dense_layers"] = num_first_dense_layers(config);
  // For programs that go by them, as published models have them.
  json["score_func"] = "sigmoid";
  json["route_norm"] = true;
  return json;
}

constexpr const char* kRouterOfAfmoe = "mlp.router.gate";

std::vector<WeightPiece> tensors_of_afmoe(const DecoderConfig& config, const AddPart& add_experts) {
  const auto add = [&](WeightMap& map, std::int64_t layer) {
    add_experts(map, layer);
    const std::string mlp = "layers." + std::to_string(layer) + ".mlp.";
    map.constant(mlp + "router.choice_bias", "model." + mlp + "expert_bias",
                 {config.experts.num_experts});
    add_shared_expert(map, config, layer, "mlp.shared_experts");
  };
  return with_module_names(
      llama_layout_weights(config, {.experts = add, .attention_gate = "gate_proj"}),
      {{"pre_feedforward_layernorm", "pre_mlp_layernorm"},
       {"post_feedforward_layernorm", "post_mlp_layernorm"}});
}

std::vector<WeightPiece> weights_of_afmoe(const DecoderConfig& config) {
  return tensors_of_afmoe(config, [&](WeightMap& map, std::int64_t layer) {
    add_experts_apart(map, config, layer,
                      {.router = kRouterOfAfmoe,
                       .experts = "mlp.experts",
                       .gate = "gate_proj",
                       .up = "up_proj",
                       .down = "down_proj"});
  });
}

std::vector<std::vector<WeightPiece>> other_weights_of_afmoe(const DecoderConfig& config) {
  return {tensors_of_afmoe(config, [&](WeightMap& map, std::int64_t layer) {
    add_experts_stacked(map, config, layer,
                        {kRouterOfAfmoe, "mlp.experts.gate_up_proj", "mlp.experts.down_proj"});
  })};
}

}  // namespace

Family afmoe_family() {
  return {.model_type = "afmoe",
          .parse = parse_afmoe,
          .weights = weights_of_afmoe,
          .write = write_afmoe,
          .other_weights = other_weights_of_afmoe};
}

}  // namespace packtrain
