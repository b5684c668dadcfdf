#include "models/families/dots1.h"

#include <nlohmann/json.hpp>

#include "models/families/layer_windows.h"
#include "models/families/llama_layout.h"
#include "models/families/sigmoid_experts.h"

namespace packtrain {
namespace {

constexpr std::int64_t kWindowOfDots1 = 4096;  // default of the key

// The numbers of experts have no fallback in transformers.
void read_experts_of_dots1(ConfigReader& reader, DecoderConfig& config) {
  reader.integer("n_routed_experts");
  reader.integer("n_shared_experts");
  reader.integer("num_experts_per_tok");
  read_sigmoid_experts(reader, config, {.normalize = false});
  read_first_dense_layers(reader, config, 0);
  reader.require("moe_layer_freq", 1);
}

DecoderConfig parse_dots1(const nlohmann::json& json) {
  ConfigReader reader(json);
  DecoderConfig config;
  config.family = "dots1";
  reader.integer("num_key_value_heads");
  read_llama_layout(reader, config);
  config.qkv_bias = reader.boolean("attention_bias", false);
  config.attention_output_bias = config.qkv_bias;
  config.qk_norm = QkNormKind::kHead;
  read_experts_of_dots1(reader, config);
  const std::int64_t first = reader.integer("max_window_layers", 62);
  const std::int64_t window = reader.integer_or_none("sliding_window", kWindowOfDots1);
  read_layer_types(reader, config, window,
                   [&](std::int64_t layer) { return window > 0 && layer >= first; });
  reader.finish(other_names(config));
  return config;
}

nlohmann::json write_dots1(const DecoderConfig& config) {
  nlohmann::json json = write_llama_layout(config);
  json["architectures"] = {"Dots1ForCausalLM"};
  json["model_type"] = "dots1";
  json["attention_bias"] = config.qkv_bias;
  write_sigmoid_experts(config, json);
  write_layer_types(config, kWindowOfDots1, json);
  return json;
}

}  // namespace

Family dots1_family() {
  return {.model_type = "dots1",
          .parse = parse_dots1,
          .weights = sigmoid_expert_weights,
          .write = write_dots1,
          .other_weights = stacked_sigmoid_expert_weights};
}

}  // namespace packtrain
