#include "models/families/nemotron.h"

#include <nlohmann/json.hpp>

#include "models/families/llama_layout.h"
#include "models/families/plain_layout.h"
#include "models/families/rotary_config.h"

namespace packtrain {
namespace {

constexpr double kInitializerRange = 0.0134;  // default of the key

DecoderConfig parse_nemotron(const nlohmann::json& json) {
  ConfigReader reader(json);
  DecoderConfig config;
  config.family = "nemotron";
  read_llama_layout(reader, config,
                    {.max_positions = 4096,
                     .epsilon = 1e-5,
                     .epsilon_key = "norm_eps",
                     .activation = "relu2",
                     .gated = false,
                     .rotary = {.partial_factor = 0.5}});
  config.initializer_range = reader.number("initializer_range", kInitializerRange);
  config.norm.kind = NormKind::kLayer;
  config.norm.weight_offset = 1;
  config.norm.has_bias = true;
  config.qkv_bias = reader.boolean("attention_bias", false);
  config.attention_output_bias = config.qkv_bias;
  config.mlp_bias = reader.boolean("mlp_bias", false);
  reader.finish(other_names(config));
  return config;
}

std::vector<WeightPiece> weights_of_nemotron(const DecoderConfig& config) {
  return plain_layout_weights(config, {.attention_output = "self_attn.o_proj",
                                       .up = "mlp.up_proj",
                                       .down = "mlp.down_proj",
                                       .final_norm = "norm"});
}

nlohmann::json write_nemotron(const DecoderConfig& config) {
  nlohmann::json json = write_llama_layout(config);
  json.erase("rms_norm_eps");
  json["norm_eps"] = config.norm.epsilon;
  json["architectures"] = {"NemotronForCausalLM"};
  json["model_type"] = "nemotron";
  json["attention_bias"] = config.qkv_bias;
  json["mlp_bias"] = config.mlp_bias;
  json["partial_rotary_factor"] = partial_rotary_factor(config);
  json["rope_parameters"]["partial_rotary_factor"] = partial_rotary_factor(config);
  return json;
}

}  // namespace

Family nemotron_family() {
  return {"nemotron", parse_nemotron, weights_of_nemotron, write_nemotron};
}

}  // namespace packtrain
