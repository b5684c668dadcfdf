#include "models/families/youtu.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "models/families/latent_layout.h"

namespace packtrain {
namespace {

DecoderConfig parse_youtu(const nlohmann::json& json) {
  ConfigReader reader(json);
  DecoderConfig config;
  config.family = "youtu";
  reader.integer("num_key_value_heads");  // transformers' fallback is 16
  read_latent_layout(reader, config, {.max_positions = 131072, .tied = true}, {});
  config.interleaved_rotary = reader.boolean("rope_interleave", true);
  if (!reader.has("initializer_range")) {
    config.initializer_range = 2.0 / std::sqrt(5.0 * static_cast<double>(config.hidden_size));
  }
  reader.ignore({"embedding_initializer_range"});
  reader.finish(other_names(config));
  return config;
}

nlohmann::json write_youtu(const DecoderConfig& config) {
  nlohmann::json json = write_latent_layout(config);
  json["architectures"] = {"YoutuForCausalLM"};
  json["model_type"] = "youtu";
  json["rope_interleave"] = config.interleaved_rotary;
  return json;
}

}  // namespace

Family youtu_family() {
  return {"youtu", parse_youtu, llama_layout_weights, write_youtu};
}

}  // namespace packtrain
