#include "models/families/qwen3_moe.h"

#include <nlohmann/json.hpp>

#include "models/families/layer_windows.h"
#include "models/families/llama_layout.h"
#include "models/families/qwen_experts.h"

namespace packtrain {
namespace {

// The key is num_experts in published configs and num_local_experts in those of transformers 5.
std::int64_t read_num_experts(ConfigReader& reader) {
  const bool is_new = reader.has("num_local_experts");
  const std::int64_t count = reader.integer(is_new ? "num_local_experts" : "num_experts", 128);
  reader.require("num_experts", count);
  return count;
}

// Either all layers slide or none.
void read_window(ConfigReader& reader, DecoderConfig& config) {
  if (!reader.boolean("use_sliding_window", false)) {
    reader.ignore({"sliding_window", "max_window_layers"});
    return;
  }
  reader.ignore({"max_window_layers"});  // transformers does not read it
  set_windows(config, reader.integer_or_none("sliding_window", 4096),
              [](std::int64_t) { return true; });
}

DecoderConfig parse_qwen3_moe(const nlohmann::json& json) {
  ConfigReader reader(json);
  DecoderConfig config;
  config.family = "qwen3_moe";
  reader.integer("num_key_value_heads");
  read_llama_layout(reader, config, {.max_positions = 32768});
  config.qk_norm = QkNormKind::kHead;
  config.qkv_bias = reader.boolean("attention_bias", false);
  config.attention_output_bias = config.qkv_bias;
  read_qwen_experts(reader, config);
  config.experts.num_experts = read_num_experts(reader);
  config.experts.intermediate_size = reader.integer("moe_intermediate_size", 768);
  read_experts_per_token(reader, config, 8);
  read_window(reader, config);
  reader.finish(other_names(config));
  return config;
}

nlohmann::json write_qwen3_moe(const DecoderConfig& config) {
  nlohmann::json json = write_llama_layout(config);
  json["architectures"] = {"Qwen3MoeForCausalLM"};
  json["model_type"] = "qwen3_moe";
  json["attention_bias"] = config.qkv_bias;
  json["num_experts"] = config.experts.num_experts;
  json["moe_intermediate_size"] = config.experts.intermediate_size;
  write_qwen_experts(config, json);
  const std::int64_t window = window_of(config);
  json["use_sliding_window"] = window > 0;
  if (window > 0) json["sliding_window"] = window;
  return json;
}

}  // namespace

Family qwen3_moe_family() {
  return {.model_type = "qwen3_moe",
          .parse = parse_qwen3_moe,
          .weights = qwen_expert_weights,
          .write = write_qwen3_moe,
          .other_weights = stacked_qwen_expert_weights};
}

}  // namespace packtrain
