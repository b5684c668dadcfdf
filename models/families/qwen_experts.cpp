#include "models/families/qwen_experts.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/families/llama_layout.h"

namespace packtrain {

void read_qwen_experts(ConfigReader& reader, DecoderConfig& config, bool normalized) {
  config.experts.normalize_weights = reader.boolean("norm_topk_prob", normalized);
  const std::int64_t step = reader.integer("decoder_sparse_step", 1);
  const std::vector<std::int64_t> dense = reader.counts("mlp_only_layers");
  set_expert_layers(config, [&](std::int64_t layer) {
    return (layer + 1) % step == 0 && !std::ranges::count(dense, layer);
  });
  read_auxiliary_loss(reader, config);
}

void write_qwen_experts(const DecoderConfig& config, nlohmann::json& json) {
  json["norm_topk_prob"] = config.experts.normalize_weights;
  json["num_experts_per_tok"] = config.experts.experts_per_token;
  json["decoder_sparse_step"] = 1;
  json["mlp_only_layers"] = nlohmann::json::array();
  for (std::int64_t layer = 0; layer < config.num_layers; ++layer) {
    if (!config.layer(layer).experts) json["mlp_only_layers"].push_back(layer);
  }
  write_auxiliary_loss(config, json);
}

void add_qwen_experts(WeightMap& map, const DecoderConfig& config, std::int64_t layer) {
  add_experts_apart(map, config, layer,
                    {.router = "mlp.gate",
                     .experts = "mlp.experts",
                     .gate = "gate_proj",
                     .up = "up_proj",
                     .down = "down_proj"});
}

void add_stacked_qwen_experts(WeightMap& map, const DecoderConfig& config, std::int64_t layer) {
  add_experts_stacked(map, config, layer,
                      {"mlp.gate", "mlp.experts.gate_up_proj", "mlp.experts.down_proj"});
}

void add_gated_qwen_expert(WeightMap& map, const DecoderConfig& config, std::int64_t layer) {
  add_shared_expert(map, config, layer, "mlp.shared_expert");
  const std::string gate = "layers." + std::to_string(layer) + ".mlp.";
  map.linear(gate + "shared_gate", "model." + gate + "shared_expert_gate", 1, config.hidden_size,
             false);
}

std::vector<WeightPiece> qwen_expert_weights(const DecoderConfig& config) {
  return llama_layout_weights(
      config, [&](WeightMap& map, std::int64_t layer) { add_qwen_experts(map, config, layer); });
}

std::vector<std::vector<WeightPiece>> stacked_qwen_expert_weights(const DecoderConfig& config) {
  return {llama_layout_weights(config, [&](WeightMap& map, std::int64_t layer) {
    add_stacked_qwen_experts(map, config, layer);
  })};
}

}  // namespace packtrain
