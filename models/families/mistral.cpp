#include "models/families/mistral.h"

#include <nlohmann/json.hpp>

#include "models/families/layer_windows.h"
#include "models/families/llama_layout.h"

namespace packtrain {
namespace {

DecoderConfig parse_mistral(const nlohmann::json& json) {
  ConfigReader reader(json);
  DecoderConfig config;
  config.family = "mistral";
  reader.integer("num_key_value_heads");
  reader.integer("max_position_embeddings");
  read_llama_layout(reader, config);
  set_windows(config, reader.integer_or_none("sliding_window", 4096),
              [](std::int64_t) { return true; });
  reader.finish(other_names(config));
  return config;
}

nlohmann::json write_mistral(const DecoderConfig& config) {
  nlohmann::json json = write_llama_layout(config);
  json["architectures"] = {"MistralForCausalLM"};
  json["model_type"] = "mistral";
  json["sliding_window"] = nullptr;
  if (const std::int64_t window = window_of(config); window > 0) json["sliding_window"] = window;
  return json;
}

}  // namespace

Family mistral_family() {
  return {"mistral", parse_mistral, llama_layout_weights, write_mistral};
}

}  // namespace packtrain
