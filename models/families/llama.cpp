#include "models/families/llama.h"

#include <nlohmann/json.hpp>

#include "models/families/llama_layout.h"

namespace packtrain {
namespace {

DecoderConfig parse_llama(const nlohmann::json& json) {
  ConfigReader reader(json);
  DecoderConfig config;
  config.family = "llama";
  read_llama_layout(reader, config);
  config.qkv_bias = reader.boolean("attention_bias", false);
  config.attention_output_bias = config.qkv_bias;
  config.mlp_bias = reader.boolean("mlp_bias", false);
  reader.require("rope_interleaved", false);  // SmolLM2 has this key and the next one
  reader.ignore({"is_llama_config", "max_sequence_length"});
  reader.finish(other_names(config));
  return config;
}

nlohmann::json write_llama(const DecoderConfig& config) {
  nlohmann::json json = write_llama_layout(config);
  json["architectures"] = {"LlamaForCausalLM"};
  json["model_type"] = "llama";
  json["attention_bias"] = config.qkv_bias;
  json["mlp_bias"] = config.mlp_bias;
  return json;
}

}  // namespace

Family llama_family() {
  return {"llama", parse_llama, llama_layout_weights, write_llama};
}

}  // namespace packtrain
