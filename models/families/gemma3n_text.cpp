#include "models/families/gemma3n_text.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/families/layer_input_weights.h"
#include "models/families/layer_windows.h"
#include "models/families/llama_layout.h"
#include "models/families/shared_keys.h"

namespace packtrain {
namespace {

// Defaults of the keys.
constexpr std::int64_t kWindowOfGemma3n = 512;
constexpr std::int64_t kInputVocabOfGemma3n = 262144;
constexpr std::int64_t kInputWidthOfGemma3n = 256;
constexpr std::int64_t kSharedLayersOfGemma3n = 15;
constexpr std::int64_t kLaurelRankOfGemma3n = 64;
constexpr std::int64_t kCopiesOfGemma3n = 4;
constexpr std::int64_t kSparseLayersOfGemma3n = 10;
constexpr double kSparsityOfGemma3n = 0.95;
constexpr double kClipOfGemma3n = 120;
constexpr double kCapOfGemma3n = 30;

constexpr const char* kWidthKey = "intermediate_size";
constexpr const char* kSparsityKey = "activation_sparsity_pattern";
constexpr const char* kLocalBaseKey = "rope_local_base_freq";
constexpr const char* kCapKeyOfGemma3n = "final_logit_softcapping";
constexpr const char* kActiveKey = "altup_active_idx";
constexpr const char* kClipKey = "altup_coef_clip";
constexpr const char* kCopiesKey = "altup_num_inputs";

void check_one_for_each_layer(ConfigReader& reader, const DecoderConfig& config, const char* key,
                              std::size_t num_values) {
  if (static_cast<std::int64_t>(num_values) == config.num_layers) return;
  reader.fail(key, "has " + std::to_string(num_values) + " layers, want " +
                       std::to_string(config.num_layers) + " (num_hidden_layers)");
}

// One width, or one for each layer.
void read_widths(const nlohmann::json& json, ConfigReader& reader, DecoderConfig& config) {
  const auto found = json.find(kWidthKey);
  if (found == json.end() || !found->is_array()) {
    config.intermediate_size = reader.integer(kWidthKey);
    return;
  }
  const std::vector<std::int64_t> widths = reader.counts(kWidthKey);
  check_one_for_each_layer(reader, config, kWidthKey, widths.size());
  config.intermediate_size = widths.front();
  for (std::size_t layer = 0; layer < widths.size(); ++layer) {
    if (widths[layer] <= 0) reader.fail(kWidthKey, "must be positive in each layer");
    if (widths[layer] != widths.front()) config.layers[layer].intermediate_size = widths[layer];
  }
}

void read_sparsity(ConfigReader& reader, DecoderConfig& config) {
  std::vector<double> shares;
  if (reader.has(kSparsityKey)) {
    shares = reader.numbers(kSparsityKey);
  } else {
    shares.resize(config.layers.size());
    const bool is_sparse = config.num_layers > kSparseLayersOfGemma3n;
    if (is_sparse) std::fill_n(shares.begin(), kSparseLayersOfGemma3n, kSparsityOfGemma3n);
  }
  check_one_for_each_layer(reader, config, kSparsityKey, shares.size());
  for (std::size_t layer = 0; layer < shares.size(); ++layer) {
    if (shares[layer] < 0 || shares[layer] >= 1) {
      reader.fail(kSparsityKey, "must be at least 0 and less than 1 in each layer");
    }
    config.layers[layer].gate_sparsity = shares[layer];
  }
}

void read_copies(ConfigReader& reader, DecoderConfig& config) {
  AltUpConfig& altup = config.altup;
  altup.num_copies = reader.integer(kCopiesKey, kCopiesOfGemma3n);
  if (altup.num_copies < 2) reader.fail(kCopiesKey, "must be at least 2");
  altup.active = reader.count(kActiveKey, 0);
  if (altup.active >= altup.num_copies) {
    reader.fail(kActiveKey, "is " + std::to_string(altup.active) + ", want less than " +
                                std::to_string(altup.num_copies) + " (" + kCopiesKey + ")");
  }
  altup.coefficient_clip = reader.number(kClipKey, kClipOfGemma3n);
  if (altup.coefficient_clip <= 0) reader.fail(kClipKey, "must be positive");
  altup.laurel_rank = reader.integer("laurel_rank", kLaurelRankOfGemma3n);
  reader.require("altup_correct_scale", true);
  reader.ignore({"altup_lr_multiplier"});  // transformers has no use of it
}

void read_inputs_of_layers(ConfigReader& reader, DecoderConfig& config) {
  config.layer_input_width = reader.integer("hidden_size_per_layer_input", kInputWidthOfGemma3n);
  const std::int64_t rows = reader.integer("vocab_size_per_layer_input", kInputVocabOfGemma3n);
  if (rows != config.vocab_size) config.layer_input_vocab = rows;
}

DecoderConfig parse_gemma3n_text(const nlohmann::json& json) {
  ConfigReader reader(json);
  DecoderConfig config;
  config.family = "gemma3n_text";
  reader.integer("num_key_value_heads");  // the fallback of transformers is for its own sizes
  read_llama_layout(reader, config,
                    {.head_dim = 256,
                     .max_positions = 32768,
                     .tied = true,
                     .activation_key = "hidden_activation",
                     .activation = "gelu_pytorch_tanh",
                     .has_dense_layers = false,
                     .layered_rotary = true});
  config.layers.resize(static_cast<std::size_t>(config.num_layers));
  config.qkv_bias = reader.boolean("attention_bias", false);
  config.attention_output_bias = config.qkv_bias;
  config.embedding_multiplier = std::sqrt(static_cast<double>(config.hidden_size));
  config.norm_after = config.value_norm = true;
  config.qk_norm = QkNormKind::kHead;
  config.attention_scale = 1;
  reader.ignore({"query_pre_attn_scalar"});  // transformers has no use of it
  config.logit_soft_cap = reader.number(kCapKeyOfGemma3n, kCapOfGemma3n);
  if (config.logit_soft_cap <= 0) reader.fail(kCapKeyOfGemma3n, "must be positive");
  read_layered_rotary(reader, config, 1e6, 1e4, kLocalBaseKey);
  read_layer_types(reader, config, reader.integer("sliding_window", kWindowOfGemma3n),
                   [](std::int64_t layer) { return (layer + 1) % 5 != 0; });
  turn_windows_apart(config);
  read_widths(json, reader, config);
  read_sparsity(reader, config);
  read_copies(reader, config);
  read_inputs_of_layers(reader, config);
  read_shared_keys(reader, config, kSharedLayersOfGemma3n);
  reader.finish(other_names(config));
  return config;
}

nlohmann::json write_gemma3n_text(const DecoderConfig& config) {
  nlohmann::json json = write_llama_layout(config);
  json["architectures"] = {"Gemma3nForCausalLM"};
  json["model_type"] = "gemma3n_text";
  json["attention_bias"] = config.qkv_bias;
  json["hidden_activation"] = json["hidden_act"];
  json[kCapKeyOfGemma3n] = config.logit_soft_cap;
  json["rope_parameters"] = write_layered_rotary(config);
  json[kLocalBaseKey] = config.local_rotary.base;
  json.erase("hidden_act");
  json["hidden_size_per_layer_input"] = config.layer_input_width;
  json["vocab_size_per_layer_input"] = config.num_layer_input_rows();
  json["laurel_rank"] = config.altup.laurel_rank;
  json[kCopiesKey] = config.altup.num_copies;
  json[kActiveKey] = config.altup.active;
  json[kClipKey] = config.altup.coefficient_clip;
  json["altup_correct_scale"] = true;
  write_shared_keys(config, json);
  write_layer_types(config, kWindowOfGemma3n, json);
  std::vector<std::int64_t> widths;
  std::vector<double> shares;
  for (std::int64_t layer = 0; layer < config.num_layers; ++layer) {
    widths.push_back(config.intermediate_size_of(layer));
    shares.push_back(config.layer(layer).gate_sparsity);
  }
  json[kWidthKey] = widths;
  json[kSparsityKey] = shares;
  return json;
}

void add_updates_of_gemma3n(WeightMap& map, const DecoderConfig& config, const std::string& ours,
                            const std::string& theirs) {
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t copies = config.altup.num_copies;
  map.norm(ours + "router_norm", theirs + "router_norm", hidden);
  map.linear(ours + "router", theirs + "modality_router", copies, hidden, false);
  map.linear(ours + "prediction", theirs + "prediction_coefs", copies * copies, copies, false);
  map.linear(ours + "correction", theirs + "correction_coefs", copies, copies, false);
  map.whole(ours + "output_scale", theirs + "correct_output_scale", {hidden});
}

void add_layer_of_gemma3n(WeightMap& map, const DecoderConfig& config, std::int64_t layer) {
  const std::string ours = "layers." + std::to_string(layer) + ".";
  const std::string theirs = "model." + ours;
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t inner = config.intermediate_size_of(layer);
  const std::int64_t rank = config.altup.laurel_rank;
  const auto norm = [&](const char* name, const char* hf_name) {
    map.norm(ours + name, theirs + hf_name, hidden);
  };
  add_updates_of_gemma3n(map, config, ours + "altup.", theirs + "altup.");
  norm("attention_norm", "input_layernorm");
  add_attention_with_shared_keys(map, config, layer);
  norm("attention_post_norm", "post_attention_layernorm");
  map.linear(ours + "laurel.left", theirs + "laurel.linear_left", rank, hidden, false);
  map.linear(ours + "laurel.right", theirs + "laurel.linear_right", hidden, rank, false);
  norm("laurel_post_norm", "laurel.post_laurel_norm");
  norm("mlp_norm", "pre_feedforward_layernorm");
  map.linear(ours + "mlp.gate_up", theirs + "mlp.gate_proj", inner, hidden, false);
  map.linear(ours + "mlp.gate_up", theirs + "mlp.up_proj", inner, hidden, false);
  map.linear(ours + "mlp.down", theirs + "mlp.down_proj", hidden, inner, false);
  norm("mlp_post_norm", "post_feedforward_layernorm");
  add_layer_input(map, config, layer);
}

// The products that make the copies before the first layer, and those of the copies after the last.
void add_copies_of_gemma3n(WeightMap& map, const DecoderConfig& config) {
  const std::string last = "layers." + std::to_string(config.num_layers - 1) + ".";
  for (std::int64_t copy = 1; copy < config.altup.num_copies; ++copy) {
    const std::string number = std::to_string(copy);
    const std::string before = std::to_string(copy - 1);
    map.linear("layers.0.altup.expand." + number, "model.altup_projections." + before,
               config.hidden_size, config.hidden_size, false);
    map.linear(last + "altup.merge." + number, "model.altup_unembed_projections." + before,
               config.hidden_size, config.hidden_size, false);
  }
}

std::vector<WeightPiece> weights_of_gemma3n_text(const DecoderConfig& config) {
  return decoder_weights(
      config, {},
      [&](WeightMap& map, std::int64_t layer) { add_layer_of_gemma3n(map, config, layer); },
      [&](WeightMap& map) {
        add_inputs_of_layers(map, config);
        add_copies_of_gemma3n(map, config);
      });
}

}  // namespace

Family gemma3n_text_family() {
  return {.model_type = "gemma3n_text",
          .parse = parse_gemma3n_text,
          .weights = weights_of_gemma3n_text,
          .write = write_gemma3n_text,
          .leaves_out = is_unread_key};
}

}  // namespace packtrain
