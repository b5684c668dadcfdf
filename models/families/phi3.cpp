#include "models/families/phi3.h"

#include <nlohmann/json.hpp>

#include "models/families/layer_windows.h"
#include "models/families/llama_layout.h"
#include "models/families/rotary_config.h"

namespace packtrain {
namespace {

constexpr LlamaLayout kLayoutOfPhi3 = {
    .max_positions = 4096,
    .epsilon = 1e-5,
    .rotary = {.partial_factor = 1.0, .original_max_positions = 4096}};

DecoderConfig parse_phi3(const nlohmann::json& json) {
  ConfigReader reader(json);
  DecoderConfig config;
  config.family = "phi3";
  read_llama_layout(reader, config, kLayoutOfPhi3);
  const RotaryScaling::Kind scaling = config.rotary.scaling.kind;
  if (scaling != RotaryScaling::Kind::kNone && scaling != RotaryScaling::Kind::kLongRope) {
    reader.reject("rope_scaling", "has a kind that this family does not: want longrope or none");
  }
  if (reader.has("sliding_window")) {
    set_windows(config, reader.integer("sliding_window"), [](std::int64_t) { return true; });
  }
  reader.require("attention_bias", false);
  reader.require("mlp_bias", false);
  reader.require("lm_head_bias", false);
  reader.require("full_attn_mod", 1);
  reader.require("interpolate_factor", 1);
  reader.finish(other_names(config));
  return config;
}

void add_layer_of_phi3(WeightMap& map, const DecoderConfig& config, std::int64_t layer) {
  const std::string ours = "layers." + std::to_string(layer) + ".";
  const std::string hf = "model." + ours;
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t q = config.num_heads * config.head_dim;
  const std::int64_t kv = config.num_kv_heads * config.head_dim;
  const std::int64_t inner = config.intermediate_size;
  map.norm(ours + "attention_norm", hf + "input_layernorm", hidden);
  map.linear(ours + "attention.qkv", hf + "self_attn.qkv_proj", q + 2 * kv, hidden, false);
  map.linear(ours + "attention.output", hf + "self_attn.o_proj", hidden, q, false);
  map.norm(ours + "mlp_norm", hf + "post_attention_layernorm", hidden);
  map.linear(ours + "mlp.gate_up", hf + "mlp.gate_up_proj", 2 * inner, hidden, false);
  map.linear(ours + "mlp.down", hf + "mlp.down_proj", hidden, inner, false);
}

std::vector<WeightPiece> weights_of_phi3(const DecoderConfig& config) {
  return decoder_weights(config, {}, [&](WeightMap& map, std::int64_t layer) {
    add_layer_of_phi3(map, config, layer);
  });
}

nlohmann::json write_phi3(const DecoderConfig& config) {
  nlohmann::json json = write_llama_layout(config);
  json["architectures"] = {"Phi3ForCausalLM"};
  json["model_type"] = "phi3";
  json["partial_rotary_factor"] = partial_rotary_factor(config);
  const RotaryScaling& scaling = config.rotary.scaling;
  if (scaling.kind == RotaryScaling::Kind::kLongRope) {
    json["original_max_position_embeddings"] = scaling.original_max_positions;
  }
  const std::int64_t window = window_of(config);
  json["sliding_window"] = window == 0 ? nlohmann::json(nullptr) : nlohmann::json(window);
  json["resid_pdrop"] = 0.0;
  json["embd_pdrop"] = 0.0;
  json["pad_token_id"] = nullptr;  // the family's default may be outside of the vocabulary
  return json;
}

}  // namespace

Family phi3_family() {
  return {"phi3", parse_phi3, weights_of_phi3, write_phi3};
}

}  // namespace packtrain
