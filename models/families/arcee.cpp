#include "models/families/arcee.h"

#include <nlohmann/json.hpp>

#include "models/families/llama_layout.h"

namespace packtrain {
namespace {

DecoderConfig parse_arcee(const nlohmann::json& json) {
  ConfigReader reader(json);
  DecoderConfig config;
  config.family = "arcee";
  read_llama_layout(
      reader, config,
      {.max_positions = 4096, .epsilon = 1e-5, .activation = "relu2", .gated = false});
  config.qkv_bias = reader.boolean("attention_bias", false);
  config.attention_output_bias = config.qkv_bias;
  config.mlp_bias = reader.boolean("mlp_bias", false);
  reader.finish(other_names(config));
  return config;
}

nlohmann::json write_arcee(const DecoderConfig& config) {
  nlohmann::json json = write_llama_layout(config);
  json["architectures"] = {"ArceeForCausalLM"};
  json["model_type"] = "arcee";
  json["attention_bias"] = config.qkv_bias;
  json["mlp_bias"] = config.mlp_bias;
  return json;
}

}  // namespace

Family arcee_family() {
  return {"arcee", parse_arcee, llama_layout_weights, write_arcee};
}

}  // namespace packtrain
