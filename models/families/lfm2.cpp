#include "models/families/lfm2.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/families/activation_config.h"
#include "models/families/llama_layout.h"

namespace packtrain {
namespace {

constexpr const char* kConvType = "conv";
constexpr const char* kFullType = "full_attention";

// The width of the MLP, which transformers makes of the configured one. It truncates twice.
std::int64_t read_mlp_width(ConfigReader& reader) {
  const bool is_older = reader.has("block_ff_dim");
  std::int64_t width = reader.integer(is_older ? "block_ff_dim" : "intermediate_size");
  if (is_older) reader.ignore({"intermediate_size"});
  const bool adjusts = reader.boolean("block_auto_adjust_ff_dim", true);
  const double multiplier = reader.number("block_ffn_dim_multiplier", 1.0);
  const std::int64_t multiple = reader.integer("block_multiple_of", 256);
  if (!adjusts) return width;
  width = 2 * width / 3;
  width = static_cast<std::int64_t>(multiplier * static_cast<double>(width));
  return (width + multiple - 1) / multiple * multiple;
}

std::vector<std::string> layer_types_of_lfm2(ConfigReader& reader, const DecoderConfig& config) {
  const std::vector<std::int64_t> attention = reader.counts("full_attn_idxs");
  const bool all = !reader.has("full_attn_idxs");
  std::vector<std::string> types = reader.texts("layer_types");
  if (reader.has("layer_types")) return types;
  for (std::int64_t layer = 0; layer < config.num_layers; ++layer) {
    types.emplace_back(all || std::ranges::count(attention, layer) > 0 ? kFullType : kConvType);
  }
  return types;
}

void read_layers_of_lfm2(ConfigReader& reader, DecoderConfig& config,
                         const std::vector<std::string>& types) {
  if (std::ssize(types) != config.num_layers) {
    reader.fail("layer_types", "has " + std::to_string(types.size()) + " layers, want " +
                                   std::to_string(config.num_layers) + " (num_hidden_layers)");
  }
  for (const std::string& type : types) {
    if (type != kConvType && type != kFullType) {
      reader.reject("layer_types", "has \"" + type + "\", want " + kFullType + " or " + kConvType);
    }
    config.layers.push_back({.short_conv = type == kConvType});
  }
  config.short_conv.width = reader.integer("conv_L_cache", 3);
  config.short_conv.bias = reader.boolean("conv_bias", false);
}

// Keys of published configs that transformers does not read.
void read_unused_keys_of_lfm2(ConfigReader& reader) {
  reader.ignore({"block_dim", "block_mlp_init_scale", "block_norm_eps", "block_out_init_scale",
                 "block_use_xavier_init", "conv_dim", "conv_dim_out", "conv_use_xavier_init",
                 "num_heads", "theta"});
  reader.require("block_use_swiglu", true);
  reader.require("use_pos_enc", true);
}

void read_sizes_of_lfm2(ConfigReader& reader, DecoderConfig& config) {
  read_llama_layout(reader, config,
                    {.max_positions = 128000,
                     .epsilon = 1e-5,
                     .epsilon_key = "norm_eps",
                     .tied = true,
                     .has_dense_layers = false,
                     .rotary = {.base = 1000000.0}});
  config.tied_embeddings = reader.boolean("tie_embedding", config.tied_embeddings);
  config.qk_norm = QkNormKind::kHead;
  if (config.activation.kind != ActivationKind::kSilu) {
    reader.reject("hidden_act", "is \"" + std::string(activation_name(config.activation.kind)) +
                                    "\", but the MLP of LFM2 has silu");
  }
}

DecoderConfig parse_lfm2(const nlohmann::json& json) {
  ConfigReader reader(json);
  DecoderConfig config;
  config.family = "lfm2";
  reader.integer("num_key_value_heads");
  config.intermediate_size = read_mlp_width(reader);
  if (config.intermediate_size == 0) reader.fail("intermediate_size", "leaves an MLP of width 0");
  read_sizes_of_lfm2(reader, config);
  read_layers_of_lfm2(reader, config, layer_types_of_lfm2(reader, config));
  read_unused_keys_of_lfm2(reader);
  reader.finish(other_names(config));
  return config;
}

nlohmann::json write_lfm2(const DecoderConfig& config) {
  nlohmann::json json = write_lfm2_layout(config);
  json["architectures"] = {"Lfm2ForCausalLM"};
  json["model_type"] = "lfm2";
  json["block_auto_adjust_ff_dim"] = false;  // the width is the adjusted one
  return json;
}

void add_attention_of_lfm2(WeightMap& map, const DecoderConfig& config, const std::string& ours,
                           const std::string& theirs) {
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t dim = config.head_dim;
  const std::int64_t keys = config.num_kv_heads * dim;
  map.linear(ours + "qkv", theirs + "q_proj", config.num_heads * dim, hidden, false);
  map.linear(ours + "qkv", theirs + "k_proj", keys, hidden, false);
  map.linear(ours + "qkv", theirs + "v_proj", keys, hidden, false);
  map.norm(ours + "query_norm", theirs + "q_layernorm", dim);
  map.norm(ours + "key_norm", theirs + "k_layernorm", dim);
  map.linear(ours + "output", theirs + "out_proj", hidden, config.num_heads * dim, false);
}

void add_convolution_of_lfm2(WeightMap& map, const DecoderConfig& config, const std::string& ours,
                             const std::string& theirs) {
  const std::int64_t hidden = config.hidden_size;
  const ShortConvConfig& conv = config.short_conv;
  map.linear(ours + "bcx", theirs + "in_proj", 3 * hidden, hidden, conv.bias);
  map.whole(ours + "conv.weight", theirs + "conv.weight", {hidden, 1, conv.width});
  if (conv.bias) map.whole(ours + "conv.bias", theirs + "conv.bias", {hidden});
  map.linear(ours + "output", theirs + "out_proj", hidden, hidden, conv.bias);
}

void add_mlp_of_lfm2(WeightMap& map, const DecoderConfig& config, const std::string& ours,
                     const std::string& theirs) {
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t inner = config.intermediate_size;
  map.linear(ours + "gate_up", theirs + "w1", inner, hidden, false);
  map.linear(ours + "gate_up", theirs + "w3", inner, hidden, false);
  map.linear(ours + "down", theirs + "w2", hidden, inner, false);
}

std::vector<WeightPiece> weights_of_lfm2(const DecoderConfig& config) {
  return lfm2_layout_weights(config, {});
}

}  // namespace

void read_lfm2_layout(ConfigReader& reader, DecoderConfig& config) {
  read_sizes_of_lfm2(reader, config);
  read_layers_of_lfm2(reader, config, reader.texts("layer_types"));
}

nlohmann::json write_lfm2_layout(const DecoderConfig& config) {
  nlohmann::json json = write_llama_layout(config);
  json.erase("rms_norm_eps");
  json.erase("hidden_act");
  json["norm_eps"] = config.norm.epsilon;
  json["tie_embedding"] = config.tied_embeddings;
  json["conv_L_cache"] = config.short_conv.width;
  json["conv_bias"] = config.short_conv.bias;
  json["layer_types"] = nlohmann::json::array();
  for (const LayerPattern& layer : config.layers) {
    json["layer_types"].push_back(layer.short_conv ? kConvType : kFullType);
  }
  json["pad_token_id"] = nullptr;  // the family's default may be outside of the vocabulary
  return json;
}

std::vector<WeightPiece> lfm2_layout_weights(const DecoderConfig& config,
                                             const AddPart& add_experts) {
  const auto add_layer = [&](WeightMap& map, std::int64_t layer) {
    const std::int64_t hidden = config.hidden_size;
    const std::string ours = "layers." + std::to_string(layer) + ".";
    const std::string theirs = "model." + ours;
    map.norm(ours + "attention_norm", theirs + "operator_norm", hidden);
    if (config.layer(layer).short_conv) {
      add_convolution_of_lfm2(map, config, ours + "short_conv.", theirs + "conv.");
    } else {
      add_attention_of_lfm2(map, config, ours + "attention.", theirs + "self_attn.");
    }
    map.norm(ours + "mlp_norm", theirs + "ffn_norm", hidden);
    if (config.layer(layer).experts) {
      add_experts(map, layer);
    } else {
      add_mlp_of_lfm2(map, config, ours + "mlp.", theirs + "feed_forward.");
    }
  };
  return decoder_weights(config, {.norm = "model.embedding_norm"}, add_layer);
}

Family lfm2_family() {
  return {"lfm2", parse_lfm2, weights_of_lfm2, write_lfm2};
}

}  // namespace packtrain
