#include "models/families/smollm3.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "models/families/layer_windows.h"
#include "models/families/llama_layout.h"

namespace packtrain {
namespace {

void read_layers(ConfigReader& reader, DecoderConfig& config) {
  const std::vector<std::int64_t> rotary = read_rotary_layers(reader, config);
  const auto turns = [&](std::int64_t layer) {
    return rotary[static_cast<std::size_t>(layer)] != 0;
  };
  const bool slides = reader.boolean("use_sliding_window", false);
  const std::int64_t window = reader.integer_or_none("sliding_window", 0);
  read_layer_types(reader, config, slides ? window : 0,
                   [&](std::int64_t layer) { return !turns(layer); });
  set_rotary_layers(config, turns);
  reader.ignore({"max_window_layers"});  // in published configs, and not read by transformers
}

DecoderConfig parse_smollm3(const nlohmann::json& json) {
  ConfigReader reader(json);
  DecoderConfig config;
  config.family = "smollm3";
  reader.integer("num_key_value_heads");
  read_llama_layout(reader, config,
                    {.max_positions = 32768, .tied = true, .rotary = {.base = 2000000.0}});
  config.qkv_bias = reader.boolean("attention_bias", false);
  config.attention_output_bias = config.qkv_bias;
  config.mlp_bias = reader.boolean("mlp_bias", false);
  read_layers(reader, config);
  reader.finish(other_names(config));
  return config;
}

nlohmann::json write_smollm3(const DecoderConfig& config) {
  nlohmann::json json = write_llama_layout(config);
  json["architectures"] = {"SmolLM3ForCausalLM"};
  json["model_type"] = "smollm3";
  json["attention_bias"] = config.qkv_bias;
  json["mlp_bias"] = config.mlp_bias;
  json["no_rope_layers"] = write_rotary_layers(config);
  const std::int64_t window = window_of(config);
  json["use_sliding_window"] = window > 0;
  json["sliding_window"] = window > 0 ? nlohmann::json(window) : nlohmann::json(nullptr);
  json["layer_types"] = write_layer_types(config);
  json["pad_token_id"] = nullptr;  // the family's default may be outside of the vocabulary
  return json;
}

}  // namespace

Family smollm3_family() {
  return {"smollm3", parse_smollm3, llama_layout_weights, write_smollm3};
}

}  // namespace packtrain
