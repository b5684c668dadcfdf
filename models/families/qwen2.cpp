#include "models/families/qwen2.h"

#include <nlohmann/json.hpp>

#include "models/families/llama_layout.h"

namespace packtrain {
namespace {

nlohmann::json full_attention(const DecoderConfig& config) {
  return std::vector<std::string>(static_cast<std::size_t>(config.num_layers), "full_attention");
}

DecoderConfig parse(const nlohmann::json& json) {
  ConfigReader reader(json);
  DecoderConfig config;
  config.family = "qwen2";
  reader.integer("num_key_value_heads");  // transformers' fallback is 32, whatever the heads
  read_llama_layout(reader, config);
  config.qkv_bias = true;
  reader.require("use_sliding_window", false);
  reader.require("use_mrope", false);
  reader.require("layer_types", full_attention(config));
  reader.ignore({"sliding_window", "max_window_layers"});  // of the window that is off
  reader.finish();
  return config;
}

nlohmann::json write(const DecoderConfig& config) {
  nlohmann::json json = write_llama_layout(config);
  json["architectures"] = {"Qwen2ForCausalLM"};
  json["model_type"] = "qwen2";
  json["use_sliding_window"] = false;
  json["layer_types"] = full_attention(config);
  return json;
}

}  // namespace

Family qwen2_family() {
  return {"qwen2", parse, llama_layout_weights, write};
}

}  // namespace packtrain
