#include "models/families/olmo3.h"

#include <nlohmann/json.hpp>

#include "models/families/layer_windows.h"
#include "models/families/olmo2.h"

namespace packtrain {
namespace {

constexpr std::int64_t kWindowOfOlmo3 = 4096;  // default of the key

constexpr double kBase = 500000.0;

DecoderConfig parse_olmo3(const nlohmann::json& json) {
  ConfigReader reader(json);
  DecoderConfig config;
  config.family = "olmo3";
  read_olmo2_layout(reader, config, {.epsilon = 1e-5, .layered_rotary = true});
  read_layered_rotary(reader, config, kBase, kBase);
  read_layer_types(reader, config, reader.integer_or_none("sliding_window", kWindowOfOlmo3),
                   [](std::int64_t layer) { return (layer + 1) % 4 != 0; });
  turn_windows_apart(config);
  reader.finish(other_names(config));
  return config;
}

nlohmann::json write_olmo3(const DecoderConfig& config) {
  nlohmann::json json = write_llama_layout(config);
  json["architectures"] = {"Olmo3ForCausalLM"};
  json["model_type"] = "olmo3";
  json["attention_bias"] = config.qkv_bias;
  json["rope_parameters"] = write_layered_rotary(config);
  write_layer_types(config, kWindowOfOlmo3, json);
  return json;
}

}  // namespace

Family olmo3_family() {
  return {"olmo3", parse_olmo3, llama_layout_weights, write_olmo3};
}

}  // namespace packtrain
