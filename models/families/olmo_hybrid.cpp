#include "models/families/olmo_hybrid.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/families/delta_net_layout.h"
#include "models/families/llama_layout.h"
#include "models/families/olmo2.h"

namespace packtrain {
namespace {

// False where the base of rotary positions is null: transformers turns no heads then.
bool has_rotary_base(const nlohmann::json& json) {
  const auto is_object = [&](const char* key) {
    return json.contains(key) && json[key].is_object();
  };
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    if (!is_object(key)) continue;
    if (json[key].contains("rope_theta")) return !json[key]["rope_theta"].is_null();
    break;
  }
  return !json.contains("rope_theta") || !json["rope_theta"].is_null();
}

DeltaNetDefaults delta_net_defaults(ConfigReader& reader, const DecoderConfig& config) {
  DeltaNetDefaults defaults{.num_key_heads = config.num_heads, .num_value_heads = config.num_heads};
  const std::int64_t heads = reader.integer("linear_num_key_heads", defaults.num_key_heads);
  // Three quarters of the hidden size, over all heads.
  defaults.key_head_dim = std::max<std::int64_t>(1, 3 * config.hidden_size / (4 * heads));
  defaults.value_head_dim = 2 * reader.integer("linear_key_head_dim", defaults.key_head_dim);
  return defaults;
}

void read_initial_values(ConfigReader& reader, DeltaNetConfig& net) {
  net.min_decay = reader.number("linear_a_log_min", 0.0);
  net.max_decay = reader.number("linear_a_log_max", 16.0);
  const double floor = reader.number("linear_dt_init_floor", 1e-4);
  net.min_step = std::max(reader.number("linear_dt_min", 0.001), floor);
  net.max_step = std::max(reader.number("linear_dt_max", 0.1), floor);
  if (net.min_decay < 0 || net.max_decay <= net.min_decay) {
    reader.fail("linear_a_log_max", "must be above linear_a_log_min, which is at least 0");
  }
  if (net.min_step <= 0 || net.max_step < net.min_step) {
    reader.fail("linear_dt_max", "must be at least linear_dt_min, which is above 0");
  }
}

// Every fourth layer has attention, and the last one where no other does.
bool has_delta_rule(const DecoderConfig& config, std::int64_t layer) {
  const bool is_last_of_few = config.num_layers < 4 && layer + 1 == config.num_layers;
  return layer % 4 != 3 && !is_last_of_few;
}

void check_mixers(ConfigReader& reader, const DecoderConfig& config) {
  const auto count = std::ranges::count(config.layers, true, &LayerPattern::delta_net);
  if (count > 0 && count < config.num_layers) return;
  reader.reject("layer_types", "has no layer of linear_attention, or no layer of full_attention");
}

DecoderConfig parse_olmo_hybrid(const nlohmann::json& json) {
  ConfigReader reader(json);
  DecoderConfig config;
  config.family = "olmo_hybrid";
  read_olmo2_layout(reader, config, {.max_positions = 65536});
  read_delta_net(reader, config, delta_net_defaults(reader, config));
  read_mixer_types(reader, config,
                   [&](std::int64_t layer) { return has_delta_rule(config, layer); });
  check_mixers(reader, config);
  config.delta_net.norms_before = true;
  config.delta_net.norm_epsilon = 1e-5;
  config.delta_net.beta_multiplier = reader.boolean("linear_allow_neg_eigval", true) ? 2 : 1;
  read_initial_values(reader, config.delta_net);
  if (!has_rotary_base(json)) {
    for (LayerPattern& layer : config.layers) layer.no_rotary = true;
  }
  reader.finish(other_names(config));
  return config;
}

nlohmann::json write_olmo_hybrid(const DecoderConfig& config) {
  nlohmann::json json = write_llama_layout(config);
  const DeltaNetConfig& net = config.delta_net;
  json["architectures"] = {"OlmoHybridForCausalLM"};
  json["model_type"] = "olmo_hybrid";
  json["attention_bias"] = config.qkv_bias;
  write_delta_net(config, json);
  json["linear_allow_neg_eigval"] = net.beta_multiplier == 2;
  json["linear_a_log_min"] = net.min_decay;
  json["linear_a_log_max"] = net.max_decay;
  json["linear_dt_min"] = net.min_step;
  json["linear_dt_max"] = net.max_step;
  json["linear_dt_init_floor"] = net.min_step;
  json["pad_token_id"] = nullptr;  // the family's default may be outside of the vocabulary
  if (std::ranges::any_of(config.layers, &LayerPattern::no_rotary)) {
    json.erase("rope_theta");
    json["rope_scaling"] = nullptr;
    json["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", nullptr}};
  }
  return json;
}

const DeltaNetNames kNamesOfOlmoHybrid = {
    {"q_proj", "k_proj", "v_proj", "g_proj"}, "b_proj", "a_proj", "o_norm", "o_proj"};

// By the names of transformers' modules.
std::vector<WeightPiece> modules_of_olmo_hybrid(const DecoderConfig& config) {
  const auto mixer = [&](WeightMap& map, std::int64_t layer) {
    add_delta_net(map, config, layer, kNamesOfOlmoHybrid);
  };
  return llama_layout_weights(config, AddLayerParts{.mixer = mixer});
}

bool replace_end(std::string& name, const std::string& end, const std::string& by) {
  if (!name.ends_with(end)) return false;
  name.replace(name.size() - end.size(), end.size(), by);
  return true;
}

// The rows of the convolution as three tensors.
std::vector<WeightPiece> split_convolution(const WeightPiece& whole,
                                           const std::vector<std::int64_t>& rows) {
  std::vector<WeightPiece> pieces;
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    WeightPiece piece = whole;
    const std::string name = std::string(1, "qkv"[i]) + "_conv1d.weight";
    replace_end(piece.hf_name, "conv1d.weight", name);
    piece.hf_shape[0] = rows[i];
    piece.rows = 1;
    piece.columns = rows[i] * whole.hf_shape[2];
    piece.begin = begin;
    begin += piece.columns;
    pieces.push_back(piece);
  }
  return pieces;
}

// The names of files. `renames_all`: transformers renames norms of layers with attention too.
std::vector<WeightPiece> files_of_olmo_hybrid(const DecoderConfig& config,
                                              const std::vector<std::int64_t>& conv_rows,
                                              bool renames_all) {
  std::vector<WeightPiece> pieces;
  for (WeightPiece& piece : modules_of_olmo_hybrid(config)) {
    if (piece.hf_name.ends_with(".conv1d.weight")) {
      for (WeightPiece& part : split_convolution(piece, conv_rows)) pieces.push_back(part);
      continue;
    }
    const bool is_before = piece.parameter.ends_with("mlp_norm.weight");
    replace_end(piece.hf_name, "input_layernorm.weight", "attention_layer_norm.weight");
    if (renames_all || is_before) {
      replace_end(piece.hf_name, "post_attention_layernorm.weight",
                  "feedforward_layer_norm.weight");
    }
    pieces.push_back(std::move(piece));
  }
  return pieces;
}

std::vector<WeightPiece> weights_of_olmo_hybrid(const DecoderConfig& config) {
  const std::int64_t channels = config.delta_net.conv_channels();
  const std::int64_t rows = (channels + 2) / 3;
  return files_of_olmo_hybrid(config, {rows, rows, channels - 2 * rows}, true);
}

std::vector<std::vector<WeightPiece>> other_weights_of_olmo_hybrid(const DecoderConfig& config) {
  const DeltaNetConfig& net = config.delta_net;
  return {
      files_of_olmo_hybrid(config, {net.key_width(), net.key_width(), net.value_width()}, false),
      modules_of_olmo_hybrid(config)};
}

}  // namespace

Family olmo_hybrid_family() {
  return {.model_type = "olmo_hybrid",
          .parse = parse_olmo_hybrid,
          .weights = weights_of_olmo_hybrid,
          .write = write_olmo_hybrid,
          .other_weights = other_weights_of_olmo_hybrid,
          .modules = modules_of_olmo_hybrid};
}

}  // namespace packtrain
