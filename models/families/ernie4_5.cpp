#include "models/families/ernie4_5.h"

#include <nlohmann/json.hpp>

#include "models/families/llama_layout.h"

namespace packtrain {
namespace {

DecoderConfig parse_ernie4_5(const nlohmann::json& json) {
  ConfigReader reader(json);
  DecoderConfig config;
  config.family = "ernie4_5";
  reader.integer("num_key_value_heads");
  read_llama_layout(reader, config,
                    {.head_dim = 128,
                     .max_positions = 131072,
                     .epsilon = 1e-5,
                     .tied = true,
                     .rotary = {.base = 500000.0}});
  config.interleaved_rotary = true;
  config.qkv_bias = reader.boolean("use_bias", false);
  config.attention_output_bias = config.qkv_bias;
  config.mlp_bias = config.qkv_bias;
  reader.finish(other_names(config));
  return config;
}

nlohmann::json write_ernie4_5(const DecoderConfig& config) {
  nlohmann::json json = write_llama_layout(config);
  json["architectures"] = {"Ernie4_5ForCausalLM"};
  json["model_type"] = "ernie4_5";
  json["use_bias"] = config.qkv_bias;
  json["pad_token_id"] = nullptr;  // the family's default is a token of the vocabulary
  return json;
}

}  // namespace

Family ernie4_5_family() {
  return {"ernie4_5", parse_ernie4_5, llama_layout_weights, write_ernie4_5};
}

}  // namespace packtrain
