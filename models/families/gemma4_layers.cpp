#include "models/families/gemma4_layers.h"

#include <fmt/format.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "models/families/shared_keys.h"

namespace packtrain {
namespace {

constexpr std::int64_t kGlobalHeadDim = 512;  // default of the key
constexpr const char* kLayersKey = "per_layer_config";
constexpr const char* kGlobalDimKey = "global_head_dim";
constexpr const char* kGlobalKeysKey = "num_global_key_value_heads";
constexpr const char* kKeysAsValuesKey = "attention_k_eq_v";
constexpr const char* kWideKey = "use_double_wide_mlp";

// The heads that layers without a window have.
struct GlobalHeads {
  std::int64_t head_dim = 0;
  std::int64_t num_kv_heads = 0;

  bool operator==(const GlobalHeads&) const = default;
};

// The key of a layer's entry. transformers writes as many digits as the last key has.
std::string key_of_layer(ConfigReader& entries, std::int64_t layer) {
  constexpr int kMostDigits = 4;
  for (int digits = 1; digits <= kMostDigits; ++digits) {
    std::string key = fmt::format("{:0{}}", layer, digits);
    if (entries.has(key)) return key;
  }
  return std::to_string(layer);
}

// The entries of layers without a window, which must be equal. Other layers have none.
GlobalHeads read_entries(ConfigReader& reader, const DecoderConfig& config) {
  ConfigReader entries = reader.object(kLayersKey);
  std::optional<GlobalHeads> all;
  for (std::int64_t layer = 0; layer < config.num_layers; ++layer) {
    const std::string key = key_of_layer(entries, layer);
    ConfigReader entry = entries.object(key);
    const GlobalHeads heads{entry.integer("head_dim", config.head_dim),
                            entry.integer("num_key_value_heads", config.num_kv_heads)};
    entry.finish();
    const bool slides = !config.layer(layer).attention.is_full();
    const GlobalHeads wanted =
        slides ? GlobalHeads{config.head_dim, config.num_kv_heads} : all.value_or(heads);
    if (heads != wanted) {
      reader.fail(kLayersKey, "gives layer " + key + " other heads than layers of its kind");
    }
    if (!slides) all = heads;
  }
  entries.finish();
  reader.ignore({kGlobalDimKey, kGlobalKeysKey});  // of which it was made
  return *all;
}

GlobalHeads read_global_heads(ConfigReader& reader, const DecoderConfig& config,
                              bool keys_as_values, bool has_entries) {
  if (has_entries) return read_entries(reader, config);
  GlobalHeads heads{reader.integer(kGlobalDimKey, kGlobalHeadDim), config.num_kv_heads};
  // transformers reads this key only with attention_k_eq_v.
  if (keys_as_values) {
    heads.num_kv_heads = reader.integer(kGlobalKeysKey, config.num_kv_heads);
  } else {
    reader.ignore({kGlobalKeysKey});
  }
  return heads;
}

void check_global_heads(ConfigReader& reader, const DecoderConfig& config,
                        const GlobalHeads& heads) {
  if (heads.head_dim % 2 != 0) {
    reader.fail(kGlobalDimKey, "is " + std::to_string(heads.head_dim) +
                                   ", want an even number (rotary positions turn pairs)");
  }
  if (config.num_heads % heads.num_kv_heads != 0) {
    reader.fail(kGlobalKeysKey, "is " + std::to_string(heads.num_kv_heads) +
                                    ", want a divisor of the " + std::to_string(config.num_heads) +
                                    " attention heads");
  }
}

// Layers that attend to the keys of another layer have no projection whose keys could be values.
void read_layers_without_keys(ConfigReader& reader, DecoderConfig& config) {
  const bool wide = reader.boolean(kWideKey, false);
  read_shared_keys(reader, config, 0);
  for (LayerPattern& pattern : config.layers) {
    if (!pattern.reads_keys()) continue;
    pattern.keys_as_values = false;
    if (wide) pattern.intermediate_size = 2 * config.intermediate_size;
  }
}

}  // namespace

void read_gemma4_layers(ConfigReader& reader, DecoderConfig& config) {
  config.layers.resize(static_cast<std::size_t>(config.num_layers));
  config.layers.back().attention = {};
  const bool keys_as_values = reader.boolean(kKeysAsValuesKey, false);
  const GlobalHeads heads =
      read_global_heads(reader, config, keys_as_values, reader.has(kLayersKey));
  check_global_heads(reader, config, heads);
  for (LayerPattern& pattern : config.layers) {
    if (!pattern.attention.is_full()) continue;
    pattern.keys_as_values = keys_as_values;
    if (heads.head_dim != config.head_dim) pattern.head_dim = heads.head_dim;
    if (heads.num_kv_heads != config.num_kv_heads) pattern.num_kv_heads = heads.num_kv_heads;
  }
  read_layers_without_keys(reader, config);
}

void write_gemma4_layers(const DecoderConfig& config, nlohmann::json& json) {
  const std::int64_t last = config.num_layers - 1;
  nlohmann::json entries = nlohmann::json::object();
  bool keys_as_values = false;
  for (std::int64_t layer = 0; layer <= last; ++layer) {
    if (!config.layer(layer).attention.is_full()) continue;
    keys_as_values = keys_as_values || config.layer(layer).keys_as_values;
    entries[std::to_string(layer)] = {{"head_dim", config.head_dim_of(layer)},
                                      {"num_key_value_heads", config.num_kv_heads_of(layer)}};
  }
  json[kLayersKey] = entries;
  // Other programs read these.
  json[kGlobalDimKey] = config.head_dim_of(last);
  json[kGlobalKeysKey] = config.num_kv_heads_of(last);
  json[kKeysAsValuesKey] = keys_as_values;
  write_shared_keys(config, json);
  json[kWideKey] = config.layer(last).intermediate_size > 0;
}

}  // namespace packtrain
