#include "models/families/jais2.h"

#include <nlohmann/json.hpp>

#include "models/families/llama_layout.h"

namespace packtrain {
namespace {

DecoderConfig parse_jais2(const nlohmann::json& json) {
  ConfigReader reader(json);
  DecoderConfig config;
  config.family = "jais2";
  read_llama_layout(reader, config,
                    {.max_positions = 8192,
                     .epsilon = 1e-5,
                     .epsilon_key = "layer_norm_eps",
                     .activation = "relu2",
                     .gated = false});
  config.norm.kind = NormKind::kLayer;
  config.norm.has_bias = true;
  config.qkv_bias = reader.boolean("attention_bias", true);
  config.attention_output_bias = config.qkv_bias;
  config.mlp_bias = reader.boolean("mlp_bias", true);
  reader.finish(other_names(config));
  return config;
}

nlohmann::json write_jais2(const DecoderConfig& config) {
  nlohmann::json json = write_llama_layout(config);
  json.erase("rms_norm_eps");
  json["layer_norm_eps"] = config.norm.epsilon;
  json["architectures"] = {"Jais2ForCausalLM"};
  json["model_type"] = "jais2";
  json["attention_bias"] = config.qkv_bias;
  json["mlp_bias"] = config.mlp_bias;
  return json;
}

}  // namespace

Family jais2_family() {
  return {"jais2", parse_jais2, llama_layout_weights, write_jais2};
}

}  // namespace packtrain
