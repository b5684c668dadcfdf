#include "models/families/qwen2.h"

#include <nlohmann/json.hpp>

#include "models/families/layer_windows.h"
#include "models/families/llama_layout.h"

namespace packtrain {
namespace {

DecoderConfig parse_qwen2(const nlohmann::json& json) {
  ConfigReader reader(json);
  DecoderConfig config;
  config.family = "qwen2";
  reader.integer("num_key_value_heads");
  read_llama_layout(reader, config, {.max_positions = 32768});
  config.qkv_bias = true;
  read_qwen_windows(reader, config);
  reader.require("use_mrope", false);
  reader.finish(other_names(config));
  return config;
}

nlohmann::json write_qwen2(const DecoderConfig& config) {
  nlohmann::json json = write_llama_layout(config);
  json["architectures"] = {"Qwen2ForCausalLM"};
  json["model_type"] = "qwen2";
  write_qwen_windows(config, json);
  return json;
}

}  // namespace

void read_qwen_windows(ConfigReader& reader, DecoderConfig& config) {
  const bool is_used = reader.boolean("use_sliding_window", false);
  const std::int64_t window = reader.integer_or_none("sliding_window", 4096);
  // The fallback is 28 for any number of layers, as in transformers. 0 makes all layers slide.
  const std::int64_t first = reader.count("max_window_layers", 28);
  read_layer_types(reader, config, is_used ? window : 0,
                   [&](std::int64_t layer) { return layer >= first; });
}

void write_qwen_windows(const DecoderConfig& config, nlohmann::json& json) {
  const std::int64_t window = window_of(config);
  json["use_sliding_window"] = window > 0;
  json["sliding_window"] = nullptr;
  if (window > 0) json["sliding_window"] = window;
  json["max_window_layers"] = first_window(config);
  json["layer_types"] = write_layer_types(config);
}

Family qwen2_family() {
  return {"qwen2", parse_qwen2, llama_layout_weights, write_qwen2};
}

}  // namespace packtrain
