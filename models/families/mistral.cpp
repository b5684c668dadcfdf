#include "models/families/mistral.h"

#include <nlohmann/json.hpp>
#include <string>

#include "models/families/llama_layout.h"

namespace packtrain {
namespace {

// A window as long as all positions hides nothing.
void check_window(const nlohmann::json& json, ConfigReader& reader, const DecoderConfig& config) {
  if (!json.contains("sliding_window")) {
    reader.fail("sliding_window", "is missing, which means a window of 4096 positions; want null");
  }
  if (!reader.has("sliding_window")) return;
  const std::int64_t window = reader.integer("sliding_window");
  if (window < config.max_positions) {
    reader.fail("sliding_window",
                "is " + std::to_string(window) + " and max_position_embeddings is " +
                    std::to_string(config.max_positions) +
                    ", but a window that is shorter than the longest example is not supported; "
                    "with max_position_embeddings set to " +
                    std::to_string(window) + " (and data.max_length no larger) it hides nothing");
  }
}

DecoderConfig parse(const nlohmann::json& json) {
  ConfigReader reader(json);
  DecoderConfig config;
  config.family = "mistral";
  // transformers' fallbacks differ from those of Llama.
  reader.integer("num_key_value_heads");
  reader.integer("max_position_embeddings");
  read_llama_layout(reader, config);
  check_window(json, reader, config);
  reader.finish();
  return config;
}

nlohmann::json write(const DecoderConfig& config) {
  nlohmann::json json = write_llama_layout(config);
  json["architectures"] = {"MistralForCausalLM"};
  json["model_type"] = "mistral";
  json["sliding_window"] = nullptr;
  return json;
}

}  // namespace

Family mistral_family() {
  return {"mistral", parse, llama_layout_weights, write};
}

}  // namespace packtrain
