#include "models/families/gemma3_text.h"

#include <nlohmann/json.hpp>

#include "models/families/gemma.h"
#include "models/families/layer_windows.h"

namespace packtrain {
namespace {

constexpr std::int64_t kWindowOfGemma3Text = 4096;  // default of the key

constexpr double kGlobalBase = 1e6;
constexpr double kLocalBase = 1e4;
constexpr const char* kLocalKey = "rope_local_base_freq";

DecoderConfig parse_gemma3_text(const nlohmann::json& json) {
  ConfigReader reader(json);
  DecoderConfig config;
  config.family = "gemma3_text";
  read_gemma_layout(reader, config,
                    {.head_dim = 256,
                     .max_positions = 131072,
                     .tied = true,
                     .activation_key = "hidden_activation",
                     .activation = "gelu_pytorch_tanh",
                     .layered_rotary = true});
  // transformers 5 has attention's soft cap as a key but does not compute it.
  reader.require("attn_logit_softcapping", nullptr);
  read_gemma2_options(json, reader, config, {});
  config.qk_norm = QkNormKind::kHead;
  read_layered_rotary(reader, config, kGlobalBase, kLocalBase, kLocalKey);
  // Configs that are older than layer_types have this key.
  const std::int64_t pattern = reader.integer("sliding_window_pattern", 6);
  read_layer_types(reader, config, reader.integer_or_none("sliding_window", kWindowOfGemma3Text),
                   [&](std::int64_t layer) { return (layer + 1) % pattern != 0; });
  turn_windows_apart(config);
  reader.finish(other_names(config));
  return config;
}

nlohmann::json write_gemma3_text(const DecoderConfig& config) {
  nlohmann::json json = write_gemma_layout(config);
  json["architectures"] = {"Gemma3ForCausalLM"};
  json["model_type"] = "gemma3_text";
  write_gemma2_options(config, json);
  json["rope_parameters"] = write_layered_rotary(config);
  json[kLocalKey] = config.local_rotary.base;
  write_layer_types(config, kWindowOfGemma3Text, json);
  return json;
}

}  // namespace

Family gemma3_text_family() {
  return {"gemma3_text", parse_gemma3_text, llama_layout_weights, write_gemma3_text};
}

}  // namespace packtrain
