#include "models/families/olmo.h"

#include <nlohmann/json.hpp>

#include "models/families/llama_layout.h"

namespace packtrain {
namespace {

DecoderConfig parse_olmo(const nlohmann::json& json) {
  ConfigReader reader(json);
  DecoderConfig config;
  config.family = "olmo";
  read_llama_layout(reader, config, {.epsilon = 1e-5, .has_epsilon = false});
  config.norm.kind = NormKind::kLayer;
  config.norm.has_weight = false;
  config.qkv_bias = reader.boolean("attention_bias", false);
  config.attention_output_bias = config.qkv_bias;
  if (reader.has("clip_qkv")) {
    config.clip_qkv = reader.number("clip_qkv");
    if (config.clip_qkv <= 0) reader.fail("clip_qkv", "must be positive, or null");
  }
  reader.finish(other_names(config));
  return config;
}

nlohmann::json write_olmo(const DecoderConfig& config) {
  nlohmann::json json = write_llama_layout(config);
  json["architectures"] = {"OlmoForCausalLM"};
  json["model_type"] = "olmo";
  json.erase("rms_norm_eps");
  json["attention_bias"] = config.qkv_bias;
  json["clip_qkv"] = nullptr;
  if (config.clip_qkv > 0) json["clip_qkv"] = config.clip_qkv;
  return json;
}

}  // namespace

Family olmo_family() {
  return {"olmo", parse_olmo, llama_layout_weights, write_olmo};
}

}  // namespace packtrain
