#include "models/families/solar_open.h"

#include <nlohmann/json.hpp>

#include "models/families/llama_layout.h"
#include "models/families/sigmoid_experts.h"

namespace packtrain {
namespace {

DecoderConfig parse_solar_open(const nlohmann::json& json) {
  ConfigReader reader(json);
  DecoderConfig config;
  config.family = "solar_open";
  reader.integer("num_key_value_heads");
  read_llama_layout(reader, config,
                    {.head_dim = 128,
                     .max_positions = 131072,
                     .epsilon = 1e-5,
                     .has_dense_layers = false,
                     .rotary = {.base = 1e6}});
  config.qkv_bias = reader.boolean("attention_bias", false);
  read_sigmoid_experts(reader, config, {.intermediate_size = 1280});
  set_expert_layers(config, [](std::int64_t) { return true; });
  reader.require("first_k_dense_replace", 0);
  reader.require("use_qk_norm", false);
  reader.ignore({"intermediate_size"});  // published configs have it
  reader.finish(other_names(config));
  return config;
}

nlohmann::json write_solar_open(const DecoderConfig& config) {
  nlohmann::json json = write_llama_layout(config);
  json.erase("intermediate_size");
  json["architectures"] = {"SolarOpenForCausalLM"};
  json["model_type"] = "solar_open";
  json["attention_bias"] = config.qkv_bias;
  write_sigmoid_experts(config, json);
  return json;
}

}  // namespace

Family solar_open_family() {
  return {.model_type = "solar_open",
          .parse = parse_solar_open,
          .weights = sigmoid_expert_weights,
          .write = write_solar_open,
          .other_weights = stacked_sigmoid_expert_weights};
}

}  // namespace packtrain
