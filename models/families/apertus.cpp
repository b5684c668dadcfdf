#include "models/families/apertus.h"

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/families/llama_layout.h"

namespace packtrain {
namespace {

constexpr double kBaseOfApertus = 12e6;  // default of the key
constexpr const char* kActivationKey = "hidden_act";
constexpr const char* kXielu = "xielu";

bool is_set_in(const nlohmann::json& config, const char* key) {
  return config.contains(key) && !config[key].is_null();
}

bool has_xielu(const nlohmann::json& config) {
  return !is_set_in(config, kActivationKey) || config[kActivationKey] == kXielu;
}

// transformers' own rope_parameters where the config has none. xIELU is no ActivationKind.
nlohmann::json as_other_families(const nlohmann::json& config) {
  nlohmann::json whole = config;
  if (has_xielu(config)) whole.erase(kActivationKey);
  if (is_set_in(config, "rope_parameters") || is_set_in(config, "rope_scaling")) return whole;
  whole["rope_parameters"] = {{"rope_type", "llama3"},  {"rope_theta", kBaseOfApertus},
                              {"factor", 8.0},          {"original_max_position_embeddings", 8192},
                              {"low_freq_factor", 1.0}, {"high_freq_factor", 4.0}};
  return whole;
}

DecoderConfig parse_apertus(const nlohmann::json& json) {
  ConfigReader reader(as_other_families(json));
  DecoderConfig config;
  config.family = "apertus";
  read_llama_layout(reader, config,
                    {.max_positions = 65536,
                     .epsilon = 1e-5,
                     .gated = false,
                     .rotary = {.base = kBaseOfApertus}});
  config.xielu = has_xielu(json);
  config.qk_norm = QkNormKind::kHead;
  config.qkv_bias = reader.boolean("attention_bias", false);
  config.attention_output_bias = config.qkv_bias;
  // The first versions of the models' code read these.
  reader.require("qk_norm", true);
  reader.require("post_norm", false);
  reader.finish(other_names(config));
  return config;
}

nlohmann::json write_apertus(const DecoderConfig& config) {
  nlohmann::json json = write_llama_layout(config);
  json["architectures"] = {"ApertusForCausalLM"};
  json["model_type"] = "apertus";
  json["attention_bias"] = config.qkv_bias;
  if (config.xielu) json[kActivationKey] = kXielu;
  json["pad_token_id"] = nullptr;  // the family's default is a token of the vocabulary
  return json;
}

void add_mlp_of_apertus(WeightMap& map, const DecoderConfig& config, std::int64_t layer) {
  const std::string ours = "layers." + std::to_string(layer) + ".mlp.";
  const std::string theirs = "model." + ours;
  const std::int64_t inner = config.intermediate_size;
  map.linear(ours + "up", theirs + "up_proj", inner, config.hidden_size, false);
  map.linear(ours + "down", theirs + "down_proj", config.hidden_size, inner, false);
  if (!config.xielu) return;
  for (const char* name : {"alpha_p", "alpha_n"}) {
    map.whole(ours + "xielu." + name, theirs + "act_fn." + name, {1});
  }
  for (const char* name : {"beta", "eps"}) {
    map.whole(ours + "xielu." + name, theirs + "act_fn." + name, {});
  }
}

std::string name_in_apertus(std::string name) {
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {".input_layernorm.", ".attention_layernorm."},
      {".post_attention_layernorm.", ".feedforward_layernorm."}};
  for (const auto& [of_llama, own] : kNames) {
    const std::size_t begin = name.find(of_llama);
    if (begin != std::string::npos) name.replace(begin, of_llama.size(), own);
  }
  return name;
}

std::vector<WeightPiece> weights_of_apertus(const DecoderConfig& config) {
  const auto add_mlp = [&](WeightMap& map, std::int64_t layer) {
    add_mlp_of_apertus(map, config, layer);
  };
  std::vector<WeightPiece> pieces = llama_layout_weights(config, AddLayerParts{.mlp = add_mlp});
  for (WeightPiece& piece : pieces) piece.hf_name = name_in_apertus(piece.hf_name);
  return pieces;
}

}  // namespace

Family apertus_family() {
  return {"apertus", parse_apertus, weights_of_apertus, write_apertus};
}

}  // namespace packtrain
