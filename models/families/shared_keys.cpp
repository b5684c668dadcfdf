#include "models/families/shared_keys.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace packtrain {
namespace {

constexpr const char* kSharedLayersKey = "num_kv_shared_layers";

// The last layer before `first` with the layer's window, or -1.
std::int64_t layer_with_keys(const DecoderConfig& config, std::int64_t layer, std::int64_t first) {
  std::int64_t source = first - 1;
  while (source >= 0 && config.layer(source).attention != config.layer(layer).attention) --source;
  return source;
}

}  // namespace

void read_shared_keys(ConfigReader& reader, DecoderConfig& config, std::int64_t fallback) {
  const std::int64_t first = config.num_layers - reader.count(kSharedLayersKey, fallback);
  if (first <= 0) reader.fail(kSharedLayersKey, "must be less than num_hidden_layers");
  for (std::int64_t layer = first; layer < config.num_layers; ++layer) {
    const std::int64_t source = layer_with_keys(config, layer, first);
    if (source < 0) {
      reader.fail(kSharedLayersKey,
                  "gives layer " + std::to_string(layer) +
                      " keys of another layer, but no layer of its kind has keys");
    }
    config.layers[static_cast<std::size_t>(layer)].keys_of_layer = source;
    config.layers[static_cast<std::size_t>(source)].keeps_keys = true;
  }
}

void write_shared_keys(const DecoderConfig& config, nlohmann::json& json) {
  json[kSharedLayersKey] = std::ranges::count_if(config.layers, &LayerPattern::reads_keys);
}

void add_attention_with_shared_keys(WeightMap& map, const DecoderConfig& config,
                                    std::int64_t layer) {
  const LayerPattern pattern = config.layer(layer);
  const std::string prefix = "layers." + std::to_string(layer) + ".";
  const std::string ours = prefix + "attention.";
  const std::string theirs = "model." + prefix + "self_attn.";
  const std::int64_t head_dim = config.head_dim_of(layer);
  const std::int64_t queries = config.num_heads * head_dim;
  const std::int64_t keys = config.num_kv_heads_of(layer) * head_dim;
  const auto projection = [&](const char* name, std::int64_t rows) {
    map.linear(ours + "qkv", theirs + name, rows, config.hidden_size, config.qkv_bias);
  };
  projection("q_proj", queries);
  if (!pattern.reads_keys()) projection("k_proj", keys);
  if (!pattern.reads_keys() && !pattern.keys_as_values) projection("v_proj", keys);
  map.norm(ours + "query_norm", theirs + "q_norm", head_dim);
  if (!pattern.reads_keys()) map.norm(ours + "key_norm", theirs + "k_norm", head_dim);
  map.linear(ours + "output", theirs + "o_proj", config.hidden_size, queries,
             config.attention_output_bias);
}

bool is_unread_key(const DecoderConfig& config, const std::string& tensor) {
  constexpr std::string_view kLayersPrefix = "model.layers.";
  if (!tensor.starts_with(kLayersPrefix)) return false;
  const std::size_t end = tensor.find('.', kLayersPrefix.size());
  const std::int64_t layer = std::stoll(tensor.substr(kLayersPrefix.size()));
  if (layer >= config.num_layers || !config.layer(layer).reads_keys()) return false;
  constexpr std::array<std::string_view, 4> kParts = {"k_proj.", "v_proj.", "k_norm.", "v_norm."};
  const std::string_view part = std::string_view(tensor).substr(end);
  return std::ranges::any_of(kParts, [&](std::string_view name) {
    return part.starts_with(".self_attn." + std::string(name));
  });
}

}  // namespace packtrain
