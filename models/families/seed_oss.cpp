#include "models/families/seed_oss.h"

#include <nlohmann/json.hpp>

#include "models/families/llama_layout.h"

namespace packtrain {
namespace {

constexpr const char* kDropouts[] = {"attention_dropout", "residual_dropout"};

DecoderConfig parse_seed_oss(const nlohmann::json& json) {
  ConfigReader reader(json);
  DecoderConfig config;
  config.family = "seed_oss";
  reader.integer("num_key_value_heads");
  for (const char* key : kDropouts) reader.number(key);  // finish() refuses others than 0
  read_llama_layout(reader, config, {.head_dim = 128, .max_positions = 524288});
  config.qkv_bias = reader.boolean("attention_bias", true);
  config.attention_output_bias = reader.boolean("attention_out_bias", false);
  config.mlp_bias = reader.boolean("mlp_bias", false);
  reader.finish(other_names(config));
  return config;
}

nlohmann::json write_seed_oss(const DecoderConfig& config) {
  nlohmann::json json = write_llama_layout(config);
  json["architectures"] = {"SeedOssForCausalLM"};
  json["model_type"] = "seed_oss";
  json["attention_bias"] = config.qkv_bias;
  json["attention_out_bias"] = config.attention_output_bias;
  json["mlp_bias"] = config.mlp_bias;
  for (const char* key : kDropouts) json[key] = 0.0;
  json["pad_token_id"] = nullptr;  // the family's default may be outside of the vocabulary
  return json;
}

}  // namespace

Family seed_oss_family() {
  return {"seed_oss", parse_seed_oss, llama_layout_weights, write_seed_oss};
}

}  // namespace packtrain
