#include "models/families/mamba2_layout.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "models/families/activation_config.h"
#include "models/families/llama_layout.h"

namespace packtrain {
namespace {

constexpr const char* kLimitKey = "time_step_limit";
constexpr double kNoLimit = std::numeric_limits<double>::infinity();

nlohmann::json infinite_number() {
  return {{"__float__", "Infinity"}};
}

bool is_mamba_type(std::string_view type) {
  return type == "mamba" || type == "linear_attention";
}
bool is_attention_type(std::string_view type) {
  return type == "attention" || type == "full_attention";
}

void rename_part(std::string& name, const std::string& part, const std::string& by) {
  const std::size_t at = name.find(part);
  if (at != std::string::npos) name.replace(at, part.size(), by);
}

// The width of all heads over the heads, where mamba_d_head is "auto" or not set.
std::int64_t read_mamba_head_dim(ConfigReader& reader, const DecoderConfig& config,
                                 const nlohmann::json& json, const Mamba2Defaults& defaults) {
  const std::int64_t heads = config.mamba2.num_heads;
  const std::int64_t expanded = reader.integer("mamba_expand", 2) * config.hidden_size;
  const std::int64_t width = defaults.width > 0 ? defaults.width : expanded;
  const std::string source = defaults.width_key;
  if (width % heads != 0) {
    reader.fail("mamba_n_heads", "is " + std::to_string(heads) + ", want a divisor of " +
                                     std::to_string(width) + " (" + source + ")");
  }
  const bool is_set = reader.has("mamba_d_head") && json["mamba_d_head"] != "auto";
  const std::int64_t dim = is_set ? reader.integer("mamba_d_head") : width / heads;
  if (dim * heads != width) {
    reader.fail("mamba_d_head", "is " + std::to_string(dim) + ", want " +
                                    std::to_string(width / heads) + " (" + source +
                                    ", over mamba_n_heads)");
  }
  return dim;
}

// transformers writes an infinite limit as an object.
void read_step_limit(ConfigReader& reader, Mamba2Config& mamba, const nlohmann::json& json) {
  if (!reader.has(kLimitKey)) return;
  const nlohmann::json& got = json[kLimitKey];
  const bool is_pair = got.is_array() && got.size() == 2 && got[0].is_number() &&
                       (got[1].is_number() || got[1] == infinite_number());
  if (is_pair) {
    mamba.min_step = got[0].get<double>();
    mamba.max_step = got[1].is_number() ? got[1].get<double>() : kNoLimit;
  }
  if (is_pair && mamba.min_step >= 0 && mamba.min_step <= mamba.max_step) return;
  reader.fail(kLimitKey,
              "is " + got.dump() + ", want two numbers, the first one from 0 to the second one");
}

}  // namespace

void read_mamba2(ConfigReader& reader, DecoderConfig& config, const nlohmann::json& json,
                 const Mamba2Defaults& defaults) {
  Mamba2Config& mamba = config.mamba2;
  mamba.num_heads = reader.integer("mamba_n_heads", defaults.num_heads);
  mamba.num_groups = reader.integer("mamba_n_groups", defaults.num_groups);
  mamba.state_dim = reader.integer("mamba_d_state", defaults.state_dim);
  mamba.head_dim = read_mamba_head_dim(reader, config, json, defaults);
  mamba.conv_width = reader.integer("mamba_d_conv", 4);
  mamba.conv_bias = reader.boolean("mamba_conv_bias", true);
  mamba.projection_bias = reader.boolean("mamba_proj_bias", false);
  mamba.norm_epsilon = config.norm.epsilon;
  read_step_limit(reader, mamba, json);
  reader.ignore({"mamba_chunk_size", "time_step_min", "time_step_max", "time_step_floor"});
  check_mamba2_groups(reader, mamba, "mamba_n_groups");
  if (config.activation.kind != ActivationKind::kSilu) {
    reader.reject("hidden_act", "is \"" + std::string(activation_name(config.activation.kind)) +
                                    "\", but the convolution of Mamba-2 has silu");
  }
}

void check_mamba2_groups(ConfigReader& reader, const Mamba2Config& mamba, const char* key) {
  if (mamba.num_heads % mamba.num_groups == 0) return;
  reader.fail(key, "is " + std::to_string(mamba.num_groups) + ", want a divisor of the " +
                       std::to_string(mamba.num_heads) + " heads of Mamba-2");
}

void write_mamba2(const DecoderConfig& config, nlohmann::json& json) {
  const Mamba2Config& mamba = config.mamba2;
  json["mamba_n_heads"] = mamba.num_heads;
  json["mamba_n_groups"] = mamba.num_groups;
  json["mamba_d_state"] = mamba.state_dim;
  json["mamba_d_head"] = mamba.head_dim;
  json["mamba_expand"] = mamba.width() / config.hidden_size;
  json["mamba_d_conv"] = mamba.conv_width;
  json["mamba_conv_bias"] = mamba.conv_bias;
  json["mamba_proj_bias"] = mamba.projection_bias;
  if (mamba.max_step == kNoLimit && mamba.min_step == 0) return;
  nlohmann::json high = mamba.max_step;
  if (mamba.max_step == kNoLimit) high = infinite_number();
  json[kLimitKey] = {mamba.min_step, high};
}

void read_mamba2_layers(ConfigReader& reader, DecoderConfig& config) {
  const char* key = reader.has("layer_types") ? "layer_types" : "layers_block_type";
  if (key[5] == '_') reader.ignore({"layers_block_type"});
  std::vector<std::string> types = reader.texts(key);
  if (!reader.has(key)) types.assign(static_cast<std::size_t>(config.num_layers), "mamba");
  if (std::ssize(types) != config.num_layers) {
    reader.fail(key, "has " + std::to_string(types.size()) + " layers, want " +
                         std::to_string(config.num_layers) + " (num_hidden_layers)");
  }
  config.layers.resize(types.size());
  for (std::size_t layer = 0; layer < types.size(); ++layer) {
    if (!is_mamba_type(types[layer]) && !is_attention_type(types[layer])) {
      reader.reject(key, "has \"" + types[layer] + "\", want mamba or attention");
    }
    config.layers[layer].mamba2 = is_mamba_type(types[layer]);
  }
}

void write_mamba2_layers(const DecoderConfig& config, nlohmann::json& json) {
  json["layer_types"] = nlohmann::json::array();
  for (const LayerPattern& layer : config.layers) {
    json["layer_types"].push_back(layer.mamba2 ? "mamba" : "attention");
  }
}

void add_mamba2(WeightMap& map, const DecoderConfig& config, std::int64_t layer,
                const std::string& theirs) {
  const std::string ours = "layers." + std::to_string(layer) + ".mamba2.";
  const Mamba2Config& mamba = config.mamba2;
  const std::int64_t channels = mamba.conv_channels();
  map.linear(ours + "zxbcdt", theirs + "in_proj", mamba.projection_width(), config.hidden_size,
             mamba.projection_bias);
  map.whole(ours + "conv.weight", theirs + "conv1d.weight", {channels, 1, mamba.conv_width});
  if (mamba.conv_bias) map.whole(ours + "conv.bias", theirs + "conv1d.bias", {channels});
  map.whole(ours + "A_log", theirs + "A_log", {mamba.num_heads});
  map.whole(ours + "D", theirs + "D", {mamba.num_heads});
  map.whole(ours + "dt_bias", theirs + "dt_bias", {mamba.num_heads});
  if (mamba.has_norm) map.norm(ours + "norm", theirs + "norm", mamba.width());
  map.linear(ours + "output", theirs + "out_proj", config.hidden_size, mamba.width(),
             mamba.projection_bias);
}

std::vector<WeightPiece> bamba_layout_weights(const DecoderConfig& config) {
  AddLayerParts parts;
  parts.mixer = [&](WeightMap& map, std::int64_t layer) {
    add_mamba2(map, config, layer, "model.layers." + std::to_string(layer) + ".mamba.");
  };
  std::vector<WeightPiece> pieces = llama_layout_weights(config, parts);
  for (WeightPiece& piece : pieces) {
    rename_part(piece.hf_name, ".mlp.", ".feed_forward.");
    rename_part(piece.hf_name, ".post_attention_layernorm.", ".pre_ff_layernorm.");
    rename_part(piece.hf_name, "model.norm.", "model.final_layernorm.");
  }
  return pieces;
}

}  // namespace packtrain
