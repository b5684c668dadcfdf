#include "models/families/granitemoehybrid.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/families/expert_layout.h"
#include "models/families/granite.h"
#include "models/families/granitemoe.h"
#include "models/families/llama_layout.h"
#include "models/families/mamba2_layout.h"

namespace packtrain {
namespace {

constexpr const char* kSharedWidth = "shared_intermediate_size";
constexpr const char* kPositionsKey = "position_embedding_type";

bool has_experts(const DecoderConfig& config) {
  return config.experts.num_experts > 0;
}

// Without experts the shared MLP is the whole one.
void read_mlp_of_granitemoehybrid(ConfigReader& reader, DecoderConfig& config) {
  const std::int64_t shared = reader.integer(kSharedWidth, 1024);
  config.experts.num_experts = reader.count("num_local_experts", 8);
  if (!has_experts(config)) {
    config.intermediate_size = shared;
    reader.ignore({"num_experts_per_tok", "output_router_logits", "router_aux_loss_coef"});
    return;
  }
  config.experts.intermediate_size = config.intermediate_size;
  config.experts.shared_intermediate_size = shared;
  config.experts.softmax_first = false;
  read_experts_per_token(reader, config, 2);
  read_auxiliary_loss(reader, config);
  set_expert_layers(config, [](std::int64_t) { return true; });
}

DecoderConfig parse_granitemoehybrid(const nlohmann::json& json) {
  ConfigReader reader(json);
  DecoderConfig config;
  config.family = "granitemoehybrid";
  read_llama_layout(reader, config);
  read_granite_multipliers(reader, config);
  config.qkv_bias = reader.boolean("attention_bias", false);
  config.attention_output_bias = config.qkv_bias;
  read_mamba2(reader, config, json);
  read_mamba2_layers(reader, config);
  if (reader.text(kPositionsKey, "nope") != "rope") {
    for (LayerPattern& layer : config.layers) layer.no_rotary = true;
  }
  read_mlp_of_granitemoehybrid(reader, config);
  // Published configs have these, which transformers does not read.
  reader.require("normalization_function", "rmsnorm");
  reader.ignore({"init_method"});
  reader.finish(other_names(config));
  return config;
}

nlohmann::json write_granitemoehybrid(const DecoderConfig& config) {
  nlohmann::json json = write_llama_layout(config);
  const bool rotates = !std::ranges::all_of(config.layers, &LayerPattern::no_rotary);
  json["architectures"] = {"GraniteMoeHybridForCausalLM"};
  json["model_type"] = "granitemoehybrid";
  json["attention_bias"] = config.qkv_bias;
  json[kPositionsKey] = rotates ? "rope" : "nope";
  json[kSharedWidth] =
      has_experts(config) ? config.experts.shared_intermediate_size : config.intermediate_size;
  json["num_local_experts"] = config.experts.num_experts;
  json["num_experts_per_tok"] = config.experts.experts_per_token;
  write_granite_multipliers(config, json);
  write_auxiliary_loss(config, json);
  write_mamba2(config, json);
  write_mamba2_layers(config, json);
  return json;
}

void add_shared_mlp_of_granitemoehybrid(WeightMap& map, const DecoderConfig& config,
                                        std::int64_t layer) {
  const std::string name = "layers." + std::to_string(layer) + ".";
  const std::string theirs = "model." + name + "shared_mlp.";
  const std::string ours = name + (has_experts(config) ? "mlp.shared." : "mlp.");
  const std::int64_t inner =
      has_experts(config) ? config.experts.shared_intermediate_size : config.intermediate_size;
  map.linear(ours + "gate_up", theirs + "input_linear", 2 * inner, config.hidden_size, false);
  map.linear(ours + "down", theirs + "output_linear", config.hidden_size, inner, false);
}

std::vector<WeightPiece> tensors_of_granitemoehybrid(const DecoderConfig& config,
                                                     decltype(add_granite_experts) add) {
  AddLayerParts parts;
  parts.experts = [&](WeightMap& map, std::int64_t layer) {
    add(map, config, layer);
    add_shared_mlp_of_granitemoehybrid(map, config, layer);
  };
  parts.mlp = [&](WeightMap& map, std::int64_t layer) {
    add_shared_mlp_of_granitemoehybrid(map, config, layer);
  };
  parts.mixer = [&](WeightMap& map, std::int64_t layer) {
    add_mamba2(map, config, layer, "model.layers." + std::to_string(layer) + ".mamba.");
  };
  return llama_layout_weights(config, parts);
}

std::vector<WeightPiece> weights_of_granitemoehybrid(const DecoderConfig& config) {
  return tensors_of_granitemoehybrid(config, add_granite_experts);
}

std::vector<std::vector<WeightPiece>> other_weights_of_granitemoehybrid(
    const DecoderConfig& config) {
  return {tensors_of_granitemoehybrid(config, add_granite_expert_modules)};
}

}  // namespace

Family granitemoehybrid_family() {
  return {.model_type = "granitemoehybrid",
          .parse = parse_granitemoehybrid,
          .weights = weights_of_granitemoehybrid,
          .write = write_granitemoehybrid,
          .other_weights = other_weights_of_granitemoehybrid};
}

}  // namespace packtrain
