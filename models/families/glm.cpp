#include "models/families/glm.h"

#include <nlohmann/json.hpp>

#include "models/families/llama_layout.h"
#include "models/families/rotary_config.h"

namespace packtrain {
namespace {

DecoderConfig parse_glm(const nlohmann::json& json) {
  ConfigReader reader(json);
  DecoderConfig config;
  config.family = "glm";
  read_glm_layout(reader, config);
  reader.finish(other_names(config));
  return config;
}

void add_layer_of_glm(WeightMap& map, const DecoderConfig& config, const GlmNorms& norms,
                      std::int64_t layer) {
  const std::string ours = "layers." + std::to_string(layer) + ".";
  const std::string hf = "model." + ours;
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t inner = config.intermediate_size;
  const std::int64_t q = config.num_heads * config.head_dim;
  const std::int64_t kv = config.num_kv_heads * config.head_dim;
  for (const char* part : {"q", "k", "v"}) {
    map.linear(ours + "attention.qkv", hf + "self_attn." + part + "_proj", *part == 'q' ? q : kv,
               hidden, config.qkv_bias);
  }
  map.linear(ours + "attention.output", hf + "self_attn.o_proj", hidden, q, false);
  map.linear(ours + "mlp.gate_up", hf + "mlp.gate_up_proj", 2 * inner, hidden, false);
  map.linear(ours + "mlp.down", hf + "mlp.down_proj", hidden, inner, false);
  map.norm(ours + "attention_norm", hf + norms.before_attention, hidden);
  map.norm(ours + "mlp_norm", hf + norms.before_mlp, hidden);
  if (!config.norm_after) return;
  map.norm(ours + "attention_post_norm", hf + norms.after_attention, hidden);
  map.norm(ours + "mlp_post_norm", hf + norms.after_mlp, hidden);
}

std::vector<WeightPiece> weights_of_glm(const DecoderConfig& config) {
  return glm_weights(config, {});
}

nlohmann::json write_glm(const DecoderConfig& config) {
  nlohmann::json json = write_glm_layout(config);
  json["architectures"] = {"GlmForCausalLM"};
  json["model_type"] = "glm";
  return json;
}

}  // namespace

void read_glm_layout(ConfigReader& reader, DecoderConfig& config) {
  reader.integer("num_key_value_heads");
  read_llama_layout(reader, config,
                    {.head_dim = 128,
                     .max_positions = 131072,
                     .epsilon = 1.5625e-07,
                     .rotary = {.partial_factor = 0.5}});
  config.interleaved_rotary = true;
  config.qkv_bias = reader.boolean("attention_bias", true);
}

nlohmann::json write_glm_layout(const DecoderConfig& config) {
  nlohmann::json json = write_llama_layout(config);
  json["attention_bias"] = config.qkv_bias;
  json["partial_rotary_factor"] = partial_rotary_factor(config);
  json["rope_parameters"]["partial_rotary_factor"] = partial_rotary_factor(config);
  json["pad_token_id"] = nullptr;  // the family's default may be outside of the vocabulary
  return json;
}

std::vector<WeightPiece> glm_weights(const DecoderConfig& config, const GlmNorms& norms) {
  return decoder_weights(config, {}, [&](WeightMap& map, std::int64_t layer) {
    add_layer_of_glm(map, config, norms, layer);
  });
}

Family glm_family() {
  return {"glm", parse_glm, weights_of_glm, write_glm};
}

}  // namespace packtrain
