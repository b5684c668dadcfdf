#include "models/families/exaone4.h"

#include <nlohmann/json.hpp>

#include "models/families/layer_windows.h"
#include "models/families/llama_layout.h"

namespace packtrain {
namespace {

constexpr std::int64_t kWindowOfExaone4 = 4096;  // default of the key

DecoderConfig parse_exaone4(const nlohmann::json& json) {
  ConfigReader reader(json);
  DecoderConfig config;
  config.family = "exaone4";
  reader.integer("num_key_value_heads");
  read_llama_layout(reader, config, {.epsilon = 1e-5});
  config.norm_before = false;
  config.norm_after = true;
  config.qk_norm = QkNormKind::kHead;
  read_exaone_windows(reader, config);
  reader.finish(other_names(config));
  return config;
}

nlohmann::json write_exaone4(const DecoderConfig& config) {
  nlohmann::json json = write_llama_layout(config);
  json["architectures"] = {"Exaone4ForCausalLM"};
  json["model_type"] = "exaone4";
  write_exaone_windows(config, json);
  return json;
}

}  // namespace

// The pattern counts where there are no layer_types. Published configs have both; transformers
// does not read a pattern such as "LLLG" then.
void read_exaone_windows(ConfigReader& reader, DecoderConfig& config) {
  constexpr const char* kPattern = "sliding_window_pattern";
  const std::int64_t window = reader.integer_or_none("sliding_window", kWindowOfExaone4);
  std::int64_t pattern = 4;
  if (reader.has("layer_types") || window == 0) {
    reader.ignore({kPattern});
  } else {
    pattern = reader.integer(kPattern, pattern);
  }
  const auto is_local = [&](std::int64_t layer) { return (layer + 1) % pattern != 0; };
  read_layer_types(reader, config, window, is_local);
  set_rotary_layers(config, [&](std::int64_t layer) {
    return window == 0 || !config.layer(layer).attention.is_full();
  });
}

void write_exaone_windows(const DecoderConfig& config, nlohmann::json& json) {
  write_layer_types(config, kWindowOfExaone4, json);
  const bool has_window = window_of(config) > 0 || config.layer(0).no_rotary;
  if (!has_window) json["sliding_window"] = nullptr;
}

Family exaone4_family() {
  return {"exaone4", parse_exaone4, llama_layout_weights, write_exaone4};
}

}  // namespace packtrain
