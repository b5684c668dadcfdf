#include "models/families/gemma4_text.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "models/families/gemma4_experts.h"
#include "models/families/gemma4_layers.h"
#include "models/families/layer_input_weights.h"
#include "models/families/layer_windows.h"
#include "models/families/llama_layout.h"
#include "models/families/rotary_scaling.h"
#include "models/families/shared_keys.h"

namespace packtrain {
namespace {

constexpr std::int64_t kWindowOfGemma4 = 512;  // defaults of the keys
constexpr std::int64_t kVocabOfLayerInputs = 262144;
constexpr std::int64_t kWidthOfLayerInputs = 256;
constexpr const char* kInputWidthKey = "hidden_size_per_layer_input";
constexpr const char* kInputVocabKey = "vocab_size_per_layer_input";
constexpr const char* kCapKey = "final_logit_softcapping";
constexpr const char* kBidirectionalKey = "use_bidirectional_attention";
constexpr const char* kRotaryKey = "rope_parameters";
constexpr const char* kFullKind = "full_attention";
constexpr const char* kSlidingKind = "sliding_attention";

// The rotary positions of one kind of layer.
RotaryConfig read_rotary_of_kind(ConfigReader& rope, const DecoderConfig& config) {
  RotaryConfig rotary;
  rotary.base = rope.number("rope_theta");
  if (rotary.base <= 0) rope.fail("rope_theta", "must be positive");
  if (rope.text("rope_type", "default") == "proportional") {
    rotary.scaling = read_proportional_rotary(rope);
    return rotary;
  }
  rotary.scaling = read_rotary_scaling(rope, config, rotary.base, 0);
  if (rotary.scaling.depends_on_length()) {
    rope.reject("rope_type", "depends on the length of examples, which this family does not have");
  }
  // transformers reads both only for other kinds.
  const bool is_plain = rotary.scaling.kind == RotaryScaling::Kind::kNone;
  if (is_plain) rope.ignore({"partial_rotary_factor"});
  rope.require("partial_rotary_factor", 1.0);
  rope.require("truncate", true);
  return rotary;
}

void read_rotary_of_gemma4(ConfigReader& reader, DecoderConfig& config) {
  config.rotary = {.base = 1e6};
  config.rotary.scaling.kind = RotaryScaling::Kind::kProportional;
  config.rotary.scaling.proportion = 0.25;
  config.local_rotary = {.base = 1e4};
  if (!reader.has(kRotaryKey)) return;
  ConfigReader rope = reader.object(kRotaryKey);
  for (const char* kind : {kFullKind, kSlidingKind}) {
    if (!rope.has(kind)) rope.fail(kind, "must be set");
  }
  ConfigReader full = rope.object(kFullKind);
  ConfigReader sliding = rope.object(kSlidingKind);
  config.rotary = read_rotary_of_kind(full, config);
  config.local_rotary = read_rotary_of_kind(sliding, config);
  full.finish();
  sliding.finish();
  rope.finish();
}

nlohmann::json write_rotary_of_kind(const RotaryConfig& rotary) {
  nlohmann::json rope = write_rotary_scaling(rotary.scaling);
  rope["rope_theta"] = rotary.base;
  return rope;
}

void read_layer_inputs(ConfigReader& reader, DecoderConfig& config) {
  config.layer_input_width = reader.count(kInputWidthKey, kWidthOfLayerInputs);
  if (config.layer_input_width == 0) return reader.ignore({kInputVocabKey});
  const std::int64_t vocab = reader.integer(kInputVocabKey, kVocabOfLayerInputs);
  if (vocab != config.vocab_size) {
    reader.fail(kInputVocabKey, "is " + std::to_string(vocab) + ", want " +
                                    std::to_string(config.vocab_size) +
                                    " (vocab_size): each token needs an input of the layers");
  }
}

DecoderConfig parse_gemma4_text(const nlohmann::json& json) {
  ConfigReader reader(json);
  DecoderConfig config;
  config.family = "gemma4_text";
  reader.integer("num_key_value_heads");  // the fallback of transformers is for its own sizes
  read_llama_layout(reader, config,
                    {.head_dim = 256,
                     .max_positions = 131072,
                     .tied = true,
                     .activation_key = "hidden_activation",
                     .activation = "gelu_pytorch_tanh",
                     .layered_rotary = true});
  config.qkv_bias = reader.boolean("attention_bias", false);
  config.attention_output_bias = config.qkv_bias;
  config.embedding_multiplier = std::sqrt(static_cast<double>(config.hidden_size));
  config.norm_after = config.value_norm = config.layer_scale = true;
  config.qk_norm = QkNormKind::kHead;
  config.attention_scale = 1;
  config.logit_soft_cap = reader.number_or_none(kCapKey, 0);
  if (reader.has(kCapKey) && config.logit_soft_cap <= 0) {
    reader.fail(kCapKey, "must be positive, or null");
  }
  // "vision" is of tokens of pictures alone.
  if (reader.text(kBidirectionalKey, "vision") != "vision") {
    reader.reject(kBidirectionalKey, "lets tokens see those behind them, which is not computed");
  }
  read_rotary_of_gemma4(reader, config);
  read_layer_inputs(reader, config);
  read_layer_types(reader, config, reader.integer("sliding_window", kWindowOfGemma4),
                   [](std::int64_t layer) { return (layer + 1) % 6 != 0; });
  read_gemma4_layers(reader, config);
  read_gemma4_experts(reader, config);
  turn_windows_apart(config);
  reader.finish(other_names(config));
  return config;
}

nlohmann::json write_gemma4_text(const DecoderConfig& config) {
  nlohmann::json json = write_llama_layout(config);
  json["architectures"] = {"Gemma4ForCausalLM"};
  json["model_type"] = "gemma4_text";
  json["attention_bias"] = config.qkv_bias;
  json["hidden_activation"] = json["hidden_act"];
  json[kCapKey] = config.logit_soft_cap > 0 ? nlohmann::json(config.logit_soft_cap) : nullptr;
  json[kRotaryKey] = {{kFullKind, write_rotary_of_kind(config.rotary)},
                      {kSlidingKind, write_rotary_of_kind(config.local_rotary)}};
  for (const char* key : {"hidden_act", "rope_theta", "rope_scaling"}) json.erase(key);
  json[kInputWidthKey] = config.layer_input_width;
  json[kInputVocabKey] = config.vocab_size;
  write_layer_types(config, kWindowOfGemma4, json);
  write_gemma4_layers(config, json);
  write_gemma4_experts(config, json);
  return json;
}

void add_layer_of_gemma4(WeightMap& map, const DecoderConfig& config, std::int64_t layer) {
  const std::string ours = "layers." + std::to_string(layer) + ".";
  const std::string theirs = "model." + ours;
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t inner = config.intermediate_size_of(layer);
  const auto norm = [&](const char* name, const char* hf_name) {
    map.norm(ours + name, theirs + hf_name, hidden);
  };
  norm("attention_norm", "input_layernorm");
  add_attention_with_shared_keys(map, config, layer);
  norm("attention_post_norm", "post_attention_layernorm");
  norm("mlp_norm", "pre_feedforward_layernorm");
  map.linear(ours + "mlp.gate_up", theirs + "mlp.gate_proj", inner, hidden, false);
  map.linear(ours + "mlp.gate_up", theirs + "mlp.up_proj", inner, hidden, false);
  map.linear(ours + "mlp.down", theirs + "mlp.down_proj", hidden, inner, false);
  add_gemma4_experts(map, config, layer);
  norm("mlp_post_norm", "post_feedforward_layernorm");
  add_layer_input(map, config, layer);
  map.whole(ours + "layer_scale", theirs + "layer_scalar", {1});
}

std::vector<WeightPiece> weights_of_gemma4_text(const DecoderConfig& config) {
  return decoder_weights(
      config, {},
      [&](WeightMap& map, std::int64_t layer) { add_layer_of_gemma4(map, config, layer); },
      [&](WeightMap& map) { add_inputs_of_layers(map, config); });
}

}  // namespace

Family gemma4_text_family() {
  return {.model_type = "gemma4_text",
          .parse = parse_gemma4_text,
          .weights = weights_of_gemma4_text,
          .write = write_gemma4_text,
          .leaves_out = is_unread_key};
}

}  // namespace packtrain
