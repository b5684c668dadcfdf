#include "models/families/granite.h"

#include <nlohmann/json.hpp>

namespace packtrain {
namespace {

double positive(ConfigReader& reader, const char* key) {
  const double number = reader.number(key, 1.0);  // transformers' fallback for all of them
  if (number <= 0) reader.fail(key, "must be positive");
  return number;
}

DecoderConfig parse_granite(const nlohmann::json& json) {
  ConfigReader reader(json);
  DecoderConfig config;
  config.family = "granite";
  read_granite_layout(reader, config, {});
  reader.finish(other_names(config));
  return config;
}

nlohmann::json write_granite(const DecoderConfig& config) {
  nlohmann::json json = write_granite_layout(config);
  json["architectures"] = {"GraniteForCausalLM"};
  json["model_type"] = "granite";
  return json;
}

}  // namespace

void read_granite_multipliers(ConfigReader& reader, DecoderConfig& config) {
  config.embedding_multiplier = positive(reader, "embedding_multiplier");
  config.attention_scale = positive(reader, "attention_multiplier");
  config.residual_multiplier = positive(reader, "residual_multiplier");
  config.logit_multiplier = 1.0 / positive(reader, "logits_scaling");
}

void write_granite_multipliers(const DecoderConfig& config, nlohmann::json& json) {
  json["embedding_multiplier"] = config.embedding_multiplier;
  json["attention_multiplier"] = config.attention_scale;
  json["residual_multiplier"] = config.residual_multiplier;
  json["logits_scaling"] = 1.0 / config.logit_multiplier;
}

void read_granite_layout(ConfigReader& reader, DecoderConfig& config, const LlamaLayout& layout) {
  read_llama_layout(reader, config, layout);
  config.qkv_bias = reader.boolean("attention_bias", false);
  config.attention_output_bias = config.qkv_bias;
  config.mlp_bias = reader.boolean("mlp_bias", false);
  read_granite_multipliers(reader, config);
}

nlohmann::json write_granite_layout(const DecoderConfig& config) {
  nlohmann::json json = write_llama_layout(config);
  json["attention_bias"] = config.qkv_bias;
  json["mlp_bias"] = config.mlp_bias;
  write_granite_multipliers(config, json);
  return json;
}

Family granite_family() {
  return {"granite", parse_granite, llama_layout_weights, write_granite};
}

}  // namespace packtrain
