#include "models/families/helium.h"

#include <nlohmann/json.hpp>

#include "models/families/llama_layout.h"

namespace packtrain {
namespace {

DecoderConfig parse_helium(const nlohmann::json& json) {
  ConfigReader reader(json);
  DecoderConfig config;
  config.family = "helium";
  reader.integer("num_key_value_heads");  // transformers' fallback is 20 for any number of heads
  read_llama_layout(
      reader, config,
      {.head_dim = 128, .max_positions = 4096, .epsilon = 1e-8, .rotary = {.base = 100000.0}});
  if (config.head_dim * config.num_heads != config.hidden_size) {
    reader.reject("head_dim", "is not hidden_size / num_attention_heads, which this family has");
  }
  config.interleaved_rotary = true;
  config.qkv_bias = reader.boolean("attention_bias", false);
  config.mlp_bias = reader.boolean("mlp_bias", false);
  reader.finish(other_names(config));
  return config;
}

nlohmann::json write_helium(const DecoderConfig& config) {
  nlohmann::json json = write_llama_layout(config);
  json["architectures"] = {"HeliumForCausalLM"};
  json["model_type"] = "helium";
  json["attention_bias"] = config.qkv_bias;
  json["mlp_bias"] = config.mlp_bias;
  json["pad_token_id"] = nullptr;  // the family's default is a token of the vocabulary
  return json;
}

}  // namespace

Family helium_family() {
  return {"helium", parse_helium, llama_layout_weights, write_helium};
}

}  // namespace packtrain
