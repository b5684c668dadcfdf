#include "models/families/mixtral.h"

#include <nlohmann/json.hpp>

#include "models/families/expert_layout.h"
#include "models/families/layer_windows.h"
#include "models/families/llama_layout.h"

namespace packtrain {
namespace {

DecoderConfig parse_mixtral(const nlohmann::json& json) {
  ConfigReader reader(json);
  DecoderConfig config;
  config.family = "mixtral";
  reader.integer("num_key_value_heads");
  reader.integer("max_position_embeddings");
  reader.number("rms_norm_eps");
  read_llama_layout(reader, config, {.rotary = {.base = 1e6}});
  config.experts.num_experts = reader.integer("num_local_experts", 8);
  config.experts.intermediate_size = config.intermediate_size;
  config.experts.normalize_weights = true;
  read_experts_per_token(reader, config, 2);
  read_auxiliary_loss(reader, config);
  reader.require("router_jitter_noise", 0);
  set_expert_layers(config, [](std::int64_t) { return true; });
  set_windows(config, reader.integer_or_none("sliding_window", 0),
              [](std::int64_t) { return true; });
  reader.finish(other_names(config));
  return config;
}

nlohmann::json write_mixtral(const DecoderConfig& config) {
  nlohmann::json json = write_llama_layout(config);
  json["architectures"] = {"MixtralForCausalLM"};
  json["model_type"] = "mixtral";
  json["num_local_experts"] = config.experts.num_experts;
  json["num_experts_per_tok"] = config.experts.experts_per_token;
  json["sliding_window"] = nullptr;
  if (const std::int64_t window = window_of(config); window > 0) json["sliding_window"] = window;
  write_auxiliary_loss(config, json);
  return json;
}

std::vector<WeightPiece> weights_of_mixtral(const DecoderConfig& config) {
  return llama_layout_weights(
      config, [&](WeightMap& map, std::int64_t layer) { add_mixtral_experts(map, config, layer); });
}

std::vector<std::vector<WeightPiece>> other_weights_of_mixtral(const DecoderConfig& config) {
  return {llama_layout_weights(config, [&](WeightMap& map, std::int64_t layer) {
    add_stacked_mixtral_experts(map, config, layer);
  })};
}

}  // namespace

void add_mixtral_experts(WeightMap& map, const DecoderConfig& config, std::int64_t layer) {
  add_experts_apart(map, config, layer,
                    {.router = "block_sparse_moe.gate",
                     .experts = "block_sparse_moe.experts",
                     .gate = "w1",
                     .up = "w3",
                     .down = "w2"});
}

void add_stacked_mixtral_experts(WeightMap& map, const DecoderConfig& config, std::int64_t layer) {
  add_experts_stacked(map, config, layer,
                      {"mlp.gate", "mlp.experts.gate_up_proj", "mlp.experts.down_proj"});
}

Family mixtral_family() {
  return {.model_type = "mixtral",
          .parse = parse_mixtral,
          .weights = weights_of_mixtral,
          .write = write_mixtral,
          .other_weights = other_weights_of_mixtral};
}

}  // namespace packtrain
