#include "models/families/gemma2.h"

#include <nlohmann/json.hpp>

#include "models/families/gemma.h"
#include "models/families/layer_windows.h"

namespace packtrain {
namespace {

constexpr std::int64_t kWindowOfGemma2 = 4096;  // default of the key

DecoderConfig parse_gemma2(const nlohmann::json& json) {
  ConfigReader reader(json);
  DecoderConfig config;
  config.family = "gemma2";
  read_gemma2_layout(json, reader, config);
  reader.finish(other_names(config));
  return config;
}

nlohmann::json write_gemma2(const DecoderConfig& config) {
  nlohmann::json json = write_gemma2_layout(config);
  json["architectures"] = {"Gemma2ForCausalLM"};
  json["model_type"] = "gemma2";
  return json;
}

}  // namespace

void read_gemma2_layout(const nlohmann::json& json, ConfigReader& reader, DecoderConfig& config) {
  read_gemma_layout(reader, config,
                    {.head_dim = 256,
                     .max_positions = 8192,
                     .tied = true,
                     .activation_key = "hidden_activation",
                     .activation = "gelu_pytorch_tanh"});
  read_gemma2_options(json, reader, config, {.attention = 50.0, .logits = 30.0});
  const std::int64_t window = reader.integer_or_none("sliding_window", kWindowOfGemma2);
  if (window > 0) reader.require("sliding_window_size", window);  // also published
  read_layer_types(reader, config, window, [](std::int64_t layer) { return layer % 2 == 0; });
}

nlohmann::json write_gemma2_layout(const DecoderConfig& config) {
  nlohmann::json json = write_gemma_layout(config);
  write_gemma2_options(config, json);
  write_layer_types(config, kWindowOfGemma2, json);
  return json;
}

Family gemma2_family() {
  return {"gemma2", parse_gemma2, llama_layout_weights, write_gemma2};
}

}  // namespace packtrain
