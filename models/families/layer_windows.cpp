#include "models/families/layer_windows.h"

#include <nlohmann/json.hpp>

#include "models/families/config_reader.h"

namespace packtrain {
namespace {

constexpr const char* kSliding = "sliding_attention";
constexpr const char* kFull = "full_attention";

}  // namespace

void set_windows(DecoderConfig& config, std::int64_t window,
                 const std::function<bool(std::int64_t layer)>& slides) {
  if (window == 0) return;
  for (std::int64_t layer = 0; layer < config.num_layers; ++layer) {
    if (!slides(layer)) continue;
    config.layers.resize(static_cast<std::size_t>(config.num_layers));
    config.layers[static_cast<std::size_t>(layer)].attention = {.window = window};
  }
}

void read_layer_types(ConfigReader& reader, DecoderConfig& config, std::int64_t window,
                      const std::function<bool(std::int64_t layer)>& slides) {
  if (!reader.has("layer_types")) return set_windows(config, window, slides);
  const std::vector<std::string> types = reader.texts("layer_types");
  if (static_cast<std::int64_t>(types.size()) != config.num_layers) {
    reader.fail("layer_types", "has " + std::to_string(types.size()) + " layers, want " +
                                   std::to_string(config.num_layers) + " (num_hidden_layers)");
  }
  for (const std::string& type : types) {
    if (type == kSliding && window == 0) {
      reader.reject("layer_types", "has a sliding_attention layer, but the config sets no window");
    }
    if (type != kSliding && type != kFull) {
      reader.reject("layer_types", "has \"" + type + "\", want " + kFull + " or " + kSliding);
    }
  }
  set_windows(config, window, [&](std::int64_t layer) {
    return types[static_cast<std::size_t>(layer)] == kSliding;
  });
}

void turn_windows_apart(DecoderConfig& config) {
  for (LayerPattern& layer : config.layers) layer.local_rotary = !layer.attention.is_full();
}

void set_rotary_layers(DecoderConfig& config,
                       const std::function<bool(std::int64_t layer)>& turns) {
  for (std::int64_t layer = 0; layer < config.num_layers; ++layer) {
    if (turns(layer)) continue;
    config.layers.resize(static_cast<std::size_t>(config.num_layers));
    config.layers[static_cast<std::size_t>(layer)].no_rotary = true;
  }
}

std::vector<std::int64_t> read_rotary_layers(ConfigReader& reader, const DecoderConfig& config) {
  constexpr std::int64_t kInterval = 4;  // default of the key
  const std::int64_t interval = reader.integer("no_rope_layer_interval", kInterval);
  std::vector<std::int64_t> layers = reader.counts("no_rope_layers");
  if (std::ssize(layers) >= config.num_layers) return layers;
  if (!layers.empty()) {
    reader.fail("no_rope_layers", "has " + std::to_string(layers.size()) + " layers, want " +
                                      std::to_string(config.num_layers) + " (num_hidden_layers)");
  }
  for (std::int64_t layer = 0; layer < config.num_layers; ++layer) {
    layers.push_back((layer + 1) % interval != 0 ? 1 : 0);
  }
  return layers;
}

std::vector<std::int64_t> write_rotary_layers(const DecoderConfig& config) {
  std::vector<std::int64_t> layers;
  for (std::int64_t layer = 0; layer < config.num_layers; ++layer) {
    layers.push_back(config.layer(layer).no_rotary ? 0 : 1);
  }
  return layers;
}

std::vector<std::string> write_layer_types(const DecoderConfig& config) {
  std::vector<std::string> types;
  for (std::int64_t layer = 0; layer < config.num_layers; ++layer) {
    types.emplace_back(config.layer(layer).attention.is_full() ? kFull : kSliding);
  }
  return types;
}

void write_layer_types(const DecoderConfig& config, std::int64_t unused, nlohmann::json& json) {
  const std::int64_t window = window_of(config);
  json["layer_types"] = write_layer_types(config);
  json["sliding_window"] = window > 0 ? window : unused;
}

std::int64_t first_window(const DecoderConfig& config) {
  std::int64_t layer = 0;
  while (layer < config.num_layers && config.layer(layer).attention.is_full()) ++layer;
  return layer;
}

std::int64_t window_of(const DecoderConfig& config) {
  const std::int64_t first = first_window(config);
  return first == config.num_layers ? 0 : config.layer(first).attention.window;
}

}  // namespace packtrain
