#include "models/families/nemotron_h_weights.h"

#include <cstdint>
#include <string>

#include "models/families/expert_layout.h"
#include "models/families/mamba2_layout.h"

namespace packtrain {
namespace {

constexpr const char* kModulePrefix = "model.";
constexpr const char* kFilePrefix = "backbone.";

void add_attention_of_nemotron_h(WeightMap& map, const DecoderConfig& config,
                                 const std::string& ours, const std::string& theirs) {
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t queries = config.num_heads * config.head_dim;
  const std::int64_t keys = config.num_kv_heads * config.head_dim;
  map.linear(ours + "qkv", theirs + "q_proj", queries, hidden, false);
  map.linear(ours + "qkv", theirs + "k_proj", keys, hidden, false);
  map.linear(ours + "qkv", theirs + "v_proj", keys, hidden, false);
  map.linear(ours + "output", theirs + "o_proj", hidden, queries, false);
}

// Published files have tensors of each expert. The modules of transformers stack them.
void add_experts_of_nemotron_h(WeightMap& map, const DecoderConfig& config, std::int64_t layer,
                               bool stacked) {
  if (stacked) {
    add_experts_stacked(map, config, layer,
                        {"mixer.gate", "mixer.experts.up_proj", "mixer.experts.down_proj"});
  } else {
    add_experts_apart(map, config, layer,
                      {.router = "mixer.gate",
                       .experts = "mixer.experts",
                       .gate = "",
                       .up = "up_proj",
                       .down = "down_proj"});
  }
  const std::string name = "layers." + std::to_string(layer) + ".";
  map.constant(name + "mlp.router.choice_bias",
               kModulePrefix + name + "mixer.gate.e_score_correction_bias",
               {config.experts.num_experts});
  add_shared_expert(map, config, layer, "mixer.shared_experts");
}

void add_layer_of_nemotron_h(WeightMap& map, const DecoderConfig& config, std::int64_t layer,
                             bool stacked) {
  const LayerPattern pattern = config.layer(layer);
  const std::string ours = "layers." + std::to_string(layer) + ".";
  const std::string theirs = kModulePrefix + ours;
  const std::int64_t hidden = config.hidden_size;
  map.norm(ours + (pattern.no_mixer ? "mlp_norm" : "attention_norm"), theirs + "norm", hidden);
  if (pattern.mamba2) return add_mamba2(map, config, layer, theirs + "mixer.");
  if (!pattern.no_mixer) {
    return add_attention_of_nemotron_h(map, config, ours + "attention.", theirs + "mixer.");
  }
  if (pattern.experts) return add_experts_of_nemotron_h(map, config, layer, stacked);
  map.linear(ours + "mlp.up", theirs + "mixer.up_proj", config.intermediate_size, hidden,
             config.mlp_bias);
  map.linear(ours + "mlp.down", theirs + "mixer.down_proj", hidden, config.intermediate_size,
             config.mlp_bias);
}

std::vector<WeightPiece> tensors_of_nemotron_h(const DecoderConfig& config, bool stacked) {
  return decoder_weights(config, {.embed = "model.embeddings", .norm = "model.norm_f"},
                         [&](WeightMap& map, std::int64_t layer) {
                           add_layer_of_nemotron_h(map, config, layer, stacked);
                         });
}

}  // namespace

std::vector<WeightPiece> weights_of_nemotron_h(const DecoderConfig& config) {
  std::vector<WeightPiece> pieces = tensors_of_nemotron_h(config, /*stacked=*/false);
  const std::string prefix = kModulePrefix;
  for (WeightPiece& piece : pieces) {
    if (piece.hf_name.starts_with(prefix)) piece.hf_name.replace(0, prefix.size(), kFilePrefix);
  }
  return pieces;
}

std::vector<std::vector<WeightPiece>> other_weights_of_nemotron_h(const DecoderConfig& config) {
  return {tensors_of_nemotron_h(config, /*stacked=*/true),
          tensors_of_nemotron_h(config, /*stacked=*/false)};
}

std::vector<WeightPiece> modules_of_nemotron_h(const DecoderConfig& config) {
  return tensors_of_nemotron_h(config, /*stacked=*/false);
}

}  // namespace packtrain
