#include "models/families/ministral3.h"

#include <nlohmann/json.hpp>

#include "models/families/layer_windows.h"
#include "models/families/llama_layout.h"

namespace packtrain {
namespace {

constexpr std::int64_t kMaxPositions = 262144;  // default of the key
constexpr const char* kBeta = "llama_4_scaling_beta";
constexpr const char* kOriginal = "original_max_position_embeddings";

// transformers' own rope_parameters where the config has none.
nlohmann::json with_rotary(const nlohmann::json& config) {
  const auto is_set = [&](const char* key) {
    return config.contains(key) && !config[key].is_null();
  };
  if (is_set("rope_parameters") || is_set("rope_scaling")) return config;
  nlohmann::json whole = config;
  whole["rope_parameters"] = {{"rope_type", "yarn"}, {"rope_theta", 1e6},     {"factor", 16.0},
                              {kOriginal, 16384},    {"mscale_all_dim", 1.0}, {"mscale", 1.0},
                              {kBeta, 0.1}};
  return whole;
}

DecoderConfig parse_ministral3(const nlohmann::json& json) {
  ConfigReader reader(with_rotary(json));
  DecoderConfig config;
  config.family = "ministral3";
  reader.integer("num_key_value_heads");
  read_llama_layout(reader, config,
                    {.head_dim = 128,
                     .max_positions = kMaxPositions,
                     .epsilon = 1e-5,
                     .rotary = {.query_temperature = true}});
  set_windows(config, reader.integer_or_none("sliding_window", 0),
              [](std::int64_t) { return true; });
  reader.finish(other_names(config));
  return config;
}

nlohmann::json write_ministral3(const DecoderConfig& config) {
  nlohmann::json json = write_llama_layout(config);
  json["architectures"] = {"Ministral3ForCausalLM"};
  json["model_type"] = "ministral3";
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    if (json[key].is_null()) continue;
    json[key][kBeta] = config.query_temperature.beta;
    json[key][kOriginal] = config.query_temperature.num_positions;
  }
  const std::int64_t window = window_of(config);
  json["sliding_window"] = window > 0 ? nlohmann::json(window) : nlohmann::json(nullptr);
  json["pad_token_id"] = nullptr;  // the family's default may be outside of the vocabulary
  return json;
}

}  // namespace

Family ministral3_family() {
  return {"ministral3", parse_ministral3, llama_layout_weights, write_ministral3};
}

}  // namespace packtrain
