#include "models/families/cohere2.h"

#include <nlohmann/json.hpp>

#include "models/families/layer_windows.h"
#include "models/families/llama_layout.h"

namespace packtrain {
namespace {

constexpr std::int64_t kWindowOfCohere2 = 4096;  // default of the key
constexpr std::int64_t kPattern = 4;  // of a config that has neither layer_types nor the key

void read_windows_of_cohere2(ConfigReader& reader, DecoderConfig& config) {
  const std::int64_t window = reader.integer_or_none("sliding_window", kWindowOfCohere2);
  if (window == 0) reader.fail("sliding_window", "must be set: layers without it do not rotate");
  const std::int64_t pattern = reader.integer("sliding_window_pattern", kPattern);
  const auto is_local = [&](std::int64_t layer) { return (layer + 1) % pattern != 0; };
  read_layer_types(reader, config, window, is_local);
  set_rotary_layers(config,
                    [&](std::int64_t layer) { return !config.layer(layer).attention.is_full(); });
  reader.require("layer_switch", pattern);
}

// transformers reads none of them.
void check_own_keys(ConfigReader& reader) {
  reader.require("order_of_interleaved_layers", "local_attn_first");
  reader.require("position_embedding_type", "rope_gptj");
  reader.require("use_embedding_sharing", true);
  reader.require("use_gated_activation", true);
  reader.require("use_parallel_block", true);
}

DecoderConfig parse_cohere2(const nlohmann::json& json) {
  ConfigReader reader(json);
  DecoderConfig config;
  config.family = "cohere2";
  read_cohere_layout(reader, config, 10000.0);
  read_windows_of_cohere2(reader, config);
  check_own_keys(reader);
  reader.finish(other_names(config));
  return config;
}

nlohmann::json write_cohere2(const DecoderConfig& config) {
  nlohmann::json json = write_cohere_layout(config);
  json["architectures"] = {"Cohere2ForCausalLM"};
  json["model_type"] = "cohere2";
  write_layer_types(config, kWindowOfCohere2, json);
  return json;
}

}  // namespace

void read_cohere_layout(ConfigReader& reader, DecoderConfig& config, double base) {
  read_llama_layout(reader, config,
                    {.max_positions = 8192,
                     .epsilon = 1e-5,
                     .epsilon_key = "layer_norm_eps",
                     .tied = true,
                     .rotary = {.base = base}});
  config.norm.kind = NormKind::kLayer;
  config.residual = ResidualKind::kParallel;
  config.interleaved_rotary = true;
  config.qkv_bias = reader.boolean("attention_bias", false);
  config.attention_output_bias = config.qkv_bias;
  config.logit_multiplier = reader.number("logit_scale", 0.0625);
}

nlohmann::json write_cohere_layout(const DecoderConfig& config) {
  nlohmann::json json = write_llama_layout(config);
  json.erase("rms_norm_eps");
  json["layer_norm_eps"] = config.norm.epsilon;
  json["attention_bias"] = config.qkv_bias;
  json["logit_scale"] = config.logit_multiplier;
  json["pad_token_id"] = nullptr;  // the families' default is a token of the vocabulary
  return json;
}

Family cohere2_family() {
  return {"cohere2", parse_cohere2, llama_layout_weights, write_cohere2};
}

}  // namespace packtrain
