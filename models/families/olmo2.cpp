#include "models/families/olmo2.h"

#include <nlohmann/json.hpp>

namespace packtrain {
namespace {

DecoderConfig parse_olmo2(const nlohmann::json& json) {
  ConfigReader reader(json);
  DecoderConfig config;
  config.family = "olmo2";
  read_olmo2_layout(reader, config, {.epsilon = 1e-5});
  reader.finish(other_names(config));
  return config;
}

nlohmann::json write_olmo2(const DecoderConfig& config) {
  nlohmann::json json = write_llama_layout(config);
  json["architectures"] = {"Olmo2ForCausalLM"};
  json["model_type"] = "olmo2";
  json["attention_bias"] = config.qkv_bias;
  return json;
}

}  // namespace

void read_olmo2_layout(ConfigReader& reader, DecoderConfig& config, const LlamaLayout& layout) {
  read_llama_layout(reader, config, layout);
  config.qkv_bias = reader.boolean("attention_bias", false);
  config.attention_output_bias = config.qkv_bias;
  config.norm_before = false;
  config.norm_after = true;
  config.qk_norm = QkNormKind::kFull;
}

Family olmo2_family() {
  return {"olmo2", parse_olmo2, llama_layout_weights, write_olmo2};
}

}  // namespace packtrain
