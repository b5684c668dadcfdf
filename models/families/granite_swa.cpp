#include "models/families/granite_swa.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/families/granite.h"
#include "models/families/layer_windows.h"
#include "models/families/llama_layout.h"
#include "models/families/rotary_config.h"

namespace packtrain {
namespace {

constexpr const char* kThetas = "layer_rope_theta";
constexpr std::int64_t kWindowOfGranite = 128;  // default of the key

DecoderConfig parse_granite_swa(const nlohmann::json& json) {
  ConfigReader reader(json);
  DecoderConfig config;
  config.family = "granite_swa";
  reader.integer("num_key_value_heads");  // transformers' fallback is 4
  read_granite_layout(reader, config, {.max_positions = 8192, .epsilon = 1e-5, .tied = true});
  read_granite_windows(json, reader, config);
  reader.finish(other_names(config));
  return config;
}

nlohmann::json write_granite_swa(const DecoderConfig& config) {
  nlohmann::json json = write_granite_layout(config);
  json["architectures"] = {"GraniteSWAForCausalLM"};
  json["model_type"] = "granite_swa";
  write_granite_windows(config, json);
  return json;
}

// The scaling of the config with another base.
RotaryConfig rotary_of_base(nlohmann::json json, const DecoderConfig& config, double base) {
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    if (json.contains(key) && json[key].is_object()) json[key]["rope_theta"] = base;
  }
  json["rope_theta"] = base;
  ConfigReader reader(json);
  DecoderConfig other = config;
  read_rotary(reader, other);
  return other.rotary;
}

}  // namespace

void read_granite_windows(const nlohmann::json& json, ConfigReader& reader, DecoderConfig& config) {
  config.attention_sinks = true;
  read_layer_types(reader, config, reader.integer_or_none("sliding_window", kWindowOfGranite),
                   [](std::int64_t layer) { return layer % 4 != 0; });
  if (!reader.has(kThetas)) return;
  const std::vector<double> thetas = reader.numbers(kThetas);
  if (std::ssize(thetas) != config.num_layers) {
    reader.fail(kThetas, "has " + std::to_string(thetas.size()) + " layers, want " +
                             std::to_string(config.num_layers));
  }
  config.layers.resize(thetas.size());
  std::vector<double> bases;  // the distinct ones
  for (std::size_t layer = 0; layer < thetas.size(); ++layer) {
    const double theta = thetas[layer];
    if (theta < 0) reader.fail(kThetas, "has a negative number");
    config.layers[layer].no_rotary = theta == 0;
    if (theta == 0) continue;
    if (std::ranges::find(bases, theta) == bases.end()) bases.push_back(theta);
    config.layers[layer].local_rotary = theta != bases.front();
  }
  if (bases.size() > 2) {
    reader.fail(kThetas, "has " + std::to_string(bases.size()) + " bases, want at most 2");
  }
  if (!bases.empty()) config.rotary = rotary_of_base(json, config, bases.front());
  if (bases.size() == 2) config.local_rotary = rotary_of_base(json, config, bases.back());
}

void write_granite_windows(const DecoderConfig& config, nlohmann::json& json) {
  write_layer_types(config, kWindowOfGranite, json);
  json[kThetas] = nlohmann::json::array();
  for (std::int64_t layer = 0; layer < config.num_layers; ++layer) {
    const LayerPattern pattern = config.layer(layer);
    json[kThetas].push_back(pattern.no_rotary ? 0.0 : config.rotary_of(layer).base);
  }
}

Family granite_swa_family() {
  return {"granite_swa", parse_granite_swa, llama_layout_weights, write_granite_swa};
}

}  // namespace packtrain
