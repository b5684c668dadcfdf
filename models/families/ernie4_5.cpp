#include "models/families/ernie4_5.h"

#include <nlohmann/json.hpp>

#include "models/families/llama_layout.h"

namespace packtrain {
namespace {

DecoderConfig parse_ernie4_5(const nlohmann::json& json) {
  ConfigReader reader(json);
  DecoderConfig config;
  config.family = "ernie4_5";
  read_ernie_layout(reader, config, 128);
  reader.finish(other_names(config));
  return config;
}

nlohmann::json write_ernie4_5(const DecoderConfig& config) {
  nlohmann::json json = write_ernie_layout(config);
  json["architectures"] = {"Ernie4_5ForCausalLM"};
  json["model_type"] = "ernie4_5";
  return json;
}

}  // namespace

void read_ernie_layout(ConfigReader& reader, DecoderConfig& config, std::int64_t head_dim) {
  reader.integer("num_key_value_heads");
  read_llama_layout(reader, config,
                    {.head_dim = head_dim,
                     .max_positions = 131072,
                     .epsilon = 1e-5,
                     .tied = true,
                     .rotary = {.base = 500000.0}});
  config.interleaved_rotary = true;
  config.qkv_bias = reader.boolean("use_bias", false);
  config.attention_output_bias = config.qkv_bias;
  config.mlp_bias = config.qkv_bias;
}

nlohmann::json write_ernie_layout(const DecoderConfig& config) {
  nlohmann::json json = write_llama_layout(config);
  json["use_bias"] = config.qkv_bias;
  json["pad_token_id"] = nullptr;  // the families' default is a token of the vocabulary
  return json;
}

Family ernie4_5_family() {
  return {"ernie4_5", parse_ernie4_5, llama_layout_weights, write_ernie4_5};
}

}  // namespace packtrain
