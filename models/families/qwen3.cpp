#include "models/families/qwen3.h"

#include <nlohmann/json.hpp>

#include "models/families/llama_layout.h"
#include "models/families/qwen2.h"

namespace packtrain {
namespace {

DecoderConfig parse_qwen3(const nlohmann::json& json) {
  ConfigReader reader(json);
  DecoderConfig config;
  config.family = "qwen3";
  reader.integer("num_key_value_heads");
  read_llama_layout(reader, config, {.head_dim = 128, .max_positions = 32768});
  config.qk_norm = QkNormKind::kHead;
  config.qkv_bias = reader.boolean("attention_bias", false);
  config.attention_output_bias = config.qkv_bias;
  read_qwen_windows(reader, config);
  reader.finish(other_names(config));
  return config;
}

nlohmann::json write_qwen3(const DecoderConfig& config) {
  nlohmann::json json = write_llama_layout(config);
  json["architectures"] = {"Qwen3ForCausalLM"};
  json["model_type"] = "qwen3";
  json["attention_bias"] = config.qkv_bias;
  write_qwen_windows(config, json);
  return json;
}

}  // namespace

Family qwen3_family() {
  return {"qwen3", parse_qwen3, llama_layout_weights, write_qwen3};
}

}  // namespace packtrain
