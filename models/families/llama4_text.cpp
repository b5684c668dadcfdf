#include "models/families/llama4_text.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/families/expert_layout.h"
#include "models/families/layer_windows.h"
#include "models/families/llama_layout.h"

namespace packtrain {
namespace {

constexpr std::int64_t kChunk = 8192;       // default of attention_chunk_size
constexpr std::int64_t kFloorScale = 8192;  // default of floor_scale
constexpr const char* kChunkKey = "attention_chunk_size";
constexpr const char* kChunked = "chunked_attention";
constexpr const char* kWhole = "full_attention";
constexpr const char* kTuning = "attn_temperature_tuning";
constexpr const char* kMoeLayers = "moe_layers";

// The first published files have a number where transformers reads a truth value.
nlohmann::json with_truth_values(const nlohmann::json& config) {
  if (!config.contains(kTuning) || !config[kTuning].is_number_integer()) return config;
  nlohmann::json whole = config;
  whole[kTuning] = config[kTuning] != 0;
  return whole;
}

// The layers that have rotary positions have chunks where layer_types is not set.
std::vector<std::string> read_kinds_of_layers(ConfigReader& reader,
                                              const std::vector<std::int64_t>& rotary,
                                              std::int64_t num_layers) {
  std::vector<std::string> types = reader.texts("layer_types");
  if (types.empty()) {
    for (std::int64_t layer = 0; layer < num_layers; ++layer) {
      types.emplace_back(rotary[static_cast<std::size_t>(layer)] != 0 ? kChunked : kWhole);
    }
  }
  if (std::ssize(types) != num_layers) {
    reader.fail("layer_types", "has " + std::to_string(types.size()) + " layers, want " +
                                   std::to_string(num_layers) + " (num_hidden_layers)");
  }
  for (const std::string& type : types) {
    if (type == kChunked || type == kWhole) continue;
    reader.reject("layer_types", "has \"" + type + "\", want " + kWhole + " or " + kChunked);
  }
  return types;
}

void read_layers_of_llama4(ConfigReader& reader, DecoderConfig& config) {
  const std::vector<std::int64_t> rotary = read_rotary_layers(reader, config);
  const std::vector<std::string> types = read_kinds_of_layers(reader, rotary, config.num_layers);
  const std::int64_t chunk = reader.integer_or_none(kChunkKey, kChunk);
  if (chunk == 0 && std::ranges::find(types, kChunked) != types.end()) {
    reader.reject(kChunkKey, "is not set, but layer_types has a chunked_attention layer");
  }
  config.layers.resize(static_cast<std::size_t>(config.num_layers));
  for (std::size_t layer = 0; layer < config.layers.size(); ++layer) {
    if (types[layer] == kChunked) config.layers[layer].attention.chunk = chunk;
  }
  set_rotary_layers(
      config, [&](std::int64_t layer) { return rotary[static_cast<std::size_t>(layer)] != 0; });
}

void read_temperature_of_llama4(ConfigReader& reader, DecoderConfig& config) {
  const bool is_tuned = reader.boolean(kTuning, true);
  const double beta = reader.number("attn_scale", 0.1);
  const std::int64_t num_positions = reader.integer("floor_scale", kFloorScale);
  if (beta < 0) reader.fail("attn_scale", "must not be negative");
  if (!is_tuned || beta == 0) return;
  config.query_temperature = {
      .beta = beta, .num_positions = num_positions, .offset = 1, .only_without_rotary = true};
}

void read_experts_of_llama4(ConfigReader& reader, DecoderConfig& config) {
  ExpertsConfig& experts = config.experts;
  experts.router = RouterKind::kSigmoid;
  experts.weighted_inputs = true;
  experts.num_experts = reader.integer("num_local_experts", 16);
  experts.intermediate_size = experts.shared_intermediate_size = config.intermediate_size;
  config.intermediate_size = reader.integer("intermediate_size_mlp", 16384);
  read_experts_per_token(reader, config, 1);
  const std::int64_t step = reader.integer("interleave_moe_layer_step", 1);
  const bool is_listed = reader.has(kMoeLayers);
  const std::vector<std::int64_t> listed = reader.counts(kMoeLayers);
  set_expert_layers(config, [&](std::int64_t layer) {
    return is_listed ? std::ranges::find(listed, layer) != listed.end() : (layer + 1) % step == 0;
  });
  // transformers computes neither a balancing loss nor a noise of routers in this family.
  reader.ignore({"output_router_logits", "router_aux_loss_coef", "router_jitter_noise"});
}

DecoderConfig parse_llama4_text(const nlohmann::json& json) {
  ConfigReader reader(with_truth_values(json));
  DecoderConfig config;
  config.family = "llama4_text";
  reader.integer("num_key_value_heads");  // transformers' fallback is 8
  read_llama_layout(
      reader, config,
      {.head_dim = 128, .max_positions = 131072, .epsilon = 1e-5, .rotary = {.base = 500000.0}});
  config.interleaved_rotary = true;
  config.qkv_bias = config.attention_output_bias = reader.boolean("attention_bias", false);
  if (reader.boolean("use_qk_norm", true)) config.qk_norm = QkNormKind::kHeadUnit;
  read_layers_of_llama4(reader, config);
  read_temperature_of_llama4(reader, config);
  read_experts_of_llama4(reader, config);
  reader.ignore({"for_llm_compressor"});
  reader.finish(other_names(config));
  return config;
}

void write_layers_of_llama4(const DecoderConfig& config, nlohmann::json& json) {
  json["no_rope_layers"] = write_rotary_layers(config);
  json["layer_types"] = json[kMoeLayers] = nlohmann::json::array();
  json[kChunkKey] = kChunk;
  for (std::int64_t layer = 0; layer < config.num_layers; ++layer) {
    const std::int64_t chunk = config.layer(layer).attention.chunk;
    if (chunk > 0) json[kChunkKey] = chunk;
    json["layer_types"].push_back(chunk > 0 ? kChunked : kWhole);
    if (config.layer(layer).experts) json[kMoeLayers].push_back(layer);
  }
}

nlohmann::json write_llama4_text(const DecoderConfig& config) {
  const QueryTemperature& temperature = config.query_temperature;
  const bool is_tuned = temperature.beta != 0;
  nlohmann::json json = write_llama_layout(config);
  json["architectures"] = {"Llama4ForCausalLM"};
  json["model_type"] = "llama4_text";
  json["attention_bias"] = config.qkv_bias;
  json["use_qk_norm"] = config.qk_norm == QkNormKind::kHeadUnit;
  json["intermediate_size"] = config.experts.intermediate_size;
  json["intermediate_size_mlp"] = config.intermediate_size;
  json["num_local_experts"] = config.experts.num_experts;
  json["num_experts_per_tok"] = config.experts.experts_per_token;
  json[kTuning] = is_tuned;
  json["attn_scale"] = temperature.beta;
  json["floor_scale"] = is_tuned ? temperature.num_positions : kFloorScale;
  json["pad_token_id"] = nullptr;  // one of another vocabulary may be outside of this one
  write_layers_of_llama4(config, json);
  return json;
}

// Gate and up are halves of a row of the tensor.
void add_experts_of_llama4(WeightMap& map, const DecoderConfig& config, std::int64_t layer) {
  const std::string name = "layers." + std::to_string(layer) + ".";
  const std::string theirs = "model." + name + "feed_forward.";
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t inner = config.experts.intermediate_size;
  const std::int64_t count = config.experts.num_experts;
  map.linear(name + "mlp.router", theirs + "router", count, hidden, false);
  for (std::int64_t e = 0; e < count; ++e) {
    for (const std::int64_t half : {0, 1}) {
      map.strided(name + "mlp.experts.gate_up.weight", theirs + "experts.gate_up_proj",
                  {count, hidden, 2 * inner},
                  {.begin = e * hidden * 2 * inner + half * inner,
                   .rows = inner,
                   .columns = hidden,
                   .row_stride = 1,
                   .column_stride = 2 * inner});
    }
    map.transposed(name + "mlp.experts.down.weight", theirs + "experts.down_proj",
                   {count, inner, hidden}, e * inner * hidden, hidden, inner);
  }
  add_shared_expert(map, config, layer, "feed_forward.shared_expert");
}

void add_mlp_of_llama4(WeightMap& map, const DecoderConfig& config, std::int64_t layer) {
  const std::string name = "layers." + std::to_string(layer) + ".";
  const std::string theirs = "model." + name + "feed_forward.";
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t inner = config.intermediate_size;
  map.linear(name + "mlp.gate_up", theirs + "gate_proj", inner, hidden, false);
  map.linear(name + "mlp.gate_up", theirs + "up_proj", inner, hidden, false);
  map.linear(name + "mlp.down", theirs + "down_proj", hidden, inner, false);
}

std::vector<WeightPiece> weights_of_llama4_text(const DecoderConfig& config) {
  const auto part = [&](const auto& add) {
    return [&config, add](WeightMap& map, std::int64_t layer) { add(map, config, layer); };
  };
  return llama_layout_weights(
      config, {.experts = part(add_experts_of_llama4), .mlp = part(add_mlp_of_llama4)});
}

}  // namespace

Family llama4_text_family() {
  return {"llama4_text", parse_llama4_text, weights_of_llama4_text, write_llama4_text};
}

}  // namespace packtrain
