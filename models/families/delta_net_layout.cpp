#include "models/families/delta_net_layout.h"

#include <nlohmann/json.hpp>

#include "models/families/activation_config.h"

namespace packtrain {
namespace {

constexpr const char* kLinearType = "linear_attention";
constexpr const char* kAttentionType = "full_attention";

struct LayerPrefixes {
  std::string ours;
  std::string theirs;
};

LayerPrefixes mixer_prefixes(std::int64_t layer) {
  const std::string name = "layers." + std::to_string(layer) + ".";
  return {name + "delta_net.", "model." + name + "linear_attn."};
}

// What all layouts have under the same names.
void add_numbers(WeightMap& map, const DecoderConfig& config, const LayerPrefixes& prefix) {
  const DeltaNetConfig& net = config.delta_net;
  map.whole(prefix.ours + "conv.weight", prefix.theirs + "conv1d.weight",
            {net.conv_channels(), 1, net.conv_width});
  map.whole(prefix.ours + "A_log", prefix.theirs + "A_log", {net.num_value_heads});
  map.whole(prefix.ours + "dt_bias", prefix.theirs + "dt_bias", {net.num_value_heads});
}

void add_end(WeightMap& map, const DecoderConfig& config, const LayerPrefixes& prefix,
             const std::string& norm, const std::string& output) {
  map.norm(prefix.ours + "norm", prefix.theirs + norm, config.delta_net.value_head_dim);
  map.linear(prefix.ours + "output", prefix.theirs + output, config.hidden_size,
             config.delta_net.value_width(), false);
}

// The rows of each part, of a tensor with the parts of one key head after another.
void add_parts_by_heads(WeightMap& map, const DecoderConfig& config, const std::string& ours,
                        const std::string& theirs, const std::vector<std::int64_t>& parts) {
  const std::int64_t groups = config.delta_net.num_key_heads;
  const std::int64_t hidden = config.hidden_size;
  std::int64_t stride = 0;
  for (const std::int64_t rows : parts) stride += rows;
  std::int64_t begin = 0;
  for (const std::int64_t rows : parts) {
    map.strided(ours, theirs, {groups * stride, hidden},
                {begin * hidden, groups, rows * hidden, stride * hidden});
    begin += rows;
  }
}

// The rows of queries, keys, values and the gate, of which each tensor has as many parts as
// `num_tensors` leaves it.
std::vector<std::int64_t> rows_of_tensors(const DeltaNetConfig& net, std::size_t num_tensors) {
  if (num_tensors == 2) return {net.conv_channels(), net.value_width()};
  return {net.key_width(), net.key_width(), net.value_width(), net.value_width()};
}

}  // namespace

void read_delta_net(ConfigReader& reader, DecoderConfig& config, const DeltaNetDefaults& defaults) {
  DeltaNetConfig& net = config.delta_net;
  net.num_key_heads = reader.integer("linear_num_key_heads", defaults.num_key_heads);
  net.num_value_heads = reader.integer("linear_num_value_heads", defaults.num_value_heads);
  net.key_head_dim = reader.integer("linear_key_head_dim", defaults.key_head_dim);
  net.value_head_dim = reader.integer("linear_value_head_dim", defaults.value_head_dim);
  net.conv_width = reader.integer("linear_conv_kernel_dim", 4);
  net.norm_epsilon = config.norm.epsilon;
  if (net.num_value_heads % net.num_key_heads != 0) {
    reader.fail("linear_num_value_heads",
                "is " + std::to_string(net.num_value_heads) + ", want a multiple of the " +
                    std::to_string(net.num_key_heads) + " key heads (linear_num_key_heads)");
  }
  if (config.activation.kind != ActivationKind::kSilu) {
    reader.reject("hidden_act", "is \"" + std::string(activation_name(config.activation.kind)) +
                                    "\", but the convolution of a gated delta rule has silu");
  }
}

void read_mixer_types(ConfigReader& reader, DecoderConfig& config,
                      const std::function<bool(std::int64_t layer)>& is_linear) {
  config.layers.resize(static_cast<std::size_t>(config.num_layers));
  const std::vector<std::string> types = reader.texts("layer_types");
  const bool is_set = reader.has("layer_types");
  if (is_set && static_cast<std::int64_t>(types.size()) != config.num_layers) {
    reader.fail("layer_types", "has " + std::to_string(types.size()) + " layers, want " +
                                   std::to_string(config.num_layers) + " (num_hidden_layers)");
  }
  for (std::int64_t layer = 0; layer < config.num_layers; ++layer) {
    const auto index = static_cast<std::size_t>(layer);
    const std::string type = is_set             ? types[index]
                             : is_linear(layer) ? kLinearType
                                                : kAttentionType;
    if (type != kLinearType && type != kAttentionType) {
      reader.reject("layer_types",
                    "has \"" + type + "\", want " + kAttentionType + " or " + kLinearType);
    }
    config.layers[index].delta_net = type == kLinearType;
  }
}

void read_mixer_interval(ConfigReader& reader, DecoderConfig& config) {
  const std::int64_t interval = reader.integer("full_attention_interval", 4);
  read_mixer_types(reader, config, [&](std::int64_t layer) { return (layer + 1) % interval != 0; });
}

void write_delta_net(const DecoderConfig& config, nlohmann::json& json) {
  const DeltaNetConfig& net = config.delta_net;
  json["linear_num_key_heads"] = net.num_key_heads;
  json["linear_num_value_heads"] = net.num_value_heads;
  json["linear_key_head_dim"] = net.key_head_dim;
  json["linear_value_head_dim"] = net.value_head_dim;
  json["linear_conv_kernel_dim"] = net.conv_width;
  json["layer_types"] = nlohmann::json::array();
  for (std::int64_t layer = 0; layer < config.num_layers; ++layer) {
    json["layer_types"].push_back(config.layer(layer).delta_net ? kLinearType : kAttentionType);
  }
}

void add_delta_net(WeightMap& map, const DecoderConfig& config, std::int64_t layer,
                   const DeltaNetNames& names) {
  const LayerPrefixes prefix = mixer_prefixes(layer);
  const DeltaNetConfig& net = config.delta_net;
  const std::vector<std::int64_t> rows = rows_of_tensors(net, names.qkvz.size());
  for (std::size_t i = 0; i < names.qkvz.size(); ++i) {
    map.linear(prefix.ours + "qkvz", prefix.theirs + names.qkvz[i], rows.at(i), config.hidden_size,
               false);
  }
  for (const std::string& name : {names.b, names.a}) {
    map.linear(prefix.ours + "ba", prefix.theirs + name, net.num_value_heads, config.hidden_size,
               false);
  }
  add_numbers(map, config, prefix);
  add_end(map, config, prefix, names.norm, names.output);
}

void add_delta_net_by_heads(WeightMap& map, const DecoderConfig& config, std::int64_t layer) {
  const LayerPrefixes prefix = mixer_prefixes(layer);
  const DeltaNetConfig& net = config.delta_net;
  const std::int64_t heads = net.num_value_heads / net.num_key_heads;
  const std::int64_t values = heads * net.value_head_dim;
  add_parts_by_heads(map, config, prefix.ours + "qkvz.weight",
                     prefix.theirs + "in_proj_qkvz.weight",
                     {net.key_head_dim, net.key_head_dim, values, values});
  add_parts_by_heads(map, config, prefix.ours + "ba.weight", prefix.theirs + "in_proj_ba.weight",
                     {heads, heads});
  add_numbers(map, config, prefix);
  add_end(map, config, prefix, "norm", "out_proj");
}

}  // namespace packtrain
