#include "models/families/gpt_neox.h"

#include <nlohmann/json.hpp>
#include <string>

#include "models/families/falcon.h"
#include "models/families/llama_layout.h"
#include "models/families/rotary_config.h"

namespace packtrain {
namespace {

constexpr const char* kParallel = "use_parallel_residual";

DecoderConfig parse_gpt_neox(const nlohmann::json& json) {
  ConfigReader reader(json);
  DecoderConfig config;
  config.family = "gpt_neox";
  const double base = reader.number("rotary_emb_base", 10000.0);
  const double part = reader.number("rotary_pct", 0.25);
  read_llama_layout(reader, config,
                    {.epsilon = 1e-5,
                     .epsilon_key = "layer_norm_eps",
                     .activation = "gelu",
                     .gated = false,
                     .rotary = {.base = base, .partial_factor = part}});
  reader.require("num_key_value_heads", config.num_heads);
  reader.require("head_dim", config.hidden_size / config.num_heads);
  config.norm.kind = NormKind::kLayer;
  config.norm.has_bias = true;
  config.qkv_bias = reader.boolean("attention_bias", true);
  config.attention_output_bias = config.qkv_bias;
  config.mlp_bias = true;
  if (reader.boolean(kParallel, true)) config.residual = ResidualKind::kParallelTwoNorms;
  reader.finish(other_names(config));
  return config;
}

void add_layer_of_gpt_neox(WeightMap& map, const DecoderConfig& config, std::int64_t layer) {
  const std::string ours = "layers." + std::to_string(layer) + ".";
  const std::string hf = "gpt_neox." + ours;
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t inner = config.intermediate_size;
  map.norm(ours + "attention_norm", hf + "input_layernorm", hidden, true);
  map.norm(ours + "mlp_norm", hf + "post_attention_layernorm", hidden, true);
  add_qkv_by_groups(map, config, ours + "attention.qkv", hf + "attention.query_key_value");
  map.linear(ours + "attention.output", hf + "attention.dense", hidden, hidden,
             config.attention_output_bias);
  map.linear(ours + "mlp.up", hf + "mlp.dense_h_to_4h", inner, hidden, true);
  map.linear(ours + "mlp.down", hf + "mlp.dense_4h_to_h", hidden, inner, true);
}

std::vector<WeightPiece> tensors_of_gpt_neox(const DecoderConfig& config, const std::string& head) {
  return decoder_weights(
      config,
      {.embed = "gpt_neox.embed_in",
       .norm = "gpt_neox.final_layer_norm",
       .norm_bias = true,
       .head = head},
      [&](WeightMap& map, std::int64_t layer) { add_layer_of_gpt_neox(map, config, layer); });
}

std::vector<WeightPiece> weights_of_gpt_neox(const DecoderConfig& config) {
  return tensors_of_gpt_neox(config, "embed_out");
}

std::vector<WeightPiece> modules(const DecoderConfig& config) {
  return tensors_of_gpt_neox(config, "lm_head");
}

std::vector<std::vector<WeightPiece>> other_weights_of_gpt_neox(const DecoderConfig& config) {
  return {modules(config)};
}

nlohmann::json write_gpt_neox(const DecoderConfig& config) {
  nlohmann::json json = write_llama_layout(config);
  for (const char* key : {"rms_norm_eps", "num_key_value_heads", "head_dim"}) json.erase(key);
  json["architectures"] = {"GPTNeoXForCausalLM"};
  json["model_type"] = "gpt_neox";
  json["layer_norm_eps"] = config.norm.epsilon;
  json["attention_bias"] = config.qkv_bias;
  json[kParallel] = config.residual == ResidualKind::kParallelTwoNorms;
  json["rotary_pct"] = partial_rotary_factor(config);
  json["rotary_emb_base"] = config.rotary.base;
  json["rope_parameters"]["partial_rotary_factor"] = partial_rotary_factor(config);
  json["hidden_dropout"] = 0.0;
  return json;
}

}  // namespace

Family gpt_neox_family() {
  return {.model_type = "gpt_neox",
          .parse = parse_gpt_neox,
          .weights = weights_of_gpt_neox,
          .write = write_gpt_neox,
          .prefix = "gpt_neox.",
          .other_weights = other_weights_of_gpt_neox,
          .modules = modules};
}

}  // namespace packtrain
