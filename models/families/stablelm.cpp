#include "models/families/stablelm.h"

#include <nlohmann/json.hpp>

#include "models/families/llama_layout.h"
#include "models/families/rotary_config.h"

namespace packtrain {
namespace {

constexpr LlamaLayout kLayoutOfStablelm = {.max_positions = 4096,
                                           .epsilon = 1e-5,
                                           .epsilon_key = "layer_norm_eps",
                                           .rotary = {.partial_factor = 0.25}};

DecoderConfig parse_stablelm(const nlohmann::json& json) {
  ConfigReader reader(json);
  DecoderConfig config;
  config.family = "stablelm";
  config.norm.kind = NormKind::kLayer;
  config.norm.has_bias = true;
  reader.integer("num_key_value_heads");  // transformers' fallback is 32 for any number of heads
  read_llama_layout(reader, config, kLayoutOfStablelm);
  if (config.head_dim * config.num_heads != config.hidden_size) {
    reader.reject("head_dim", "is not hidden_size / num_attention_heads, which this family has");
  }
  config.qkv_bias = reader.boolean("use_qkv_bias", false);
  if (reader.boolean("qk_layernorm", false)) config.qk_norm = QkNormKind::kHeadLayer;
  if (reader.boolean("use_parallel_residual", false)) config.residual = ResidualKind::kParallel;
  reader.require("rotary_scaling_factor", 1.0);
  reader.ignore({"norm_eps"});  // an older name in addition to layer_norm_eps
  reader.finish(other_names(config));
  return config;
}

nlohmann::json write_stablelm(const DecoderConfig& config) {
  nlohmann::json json = write_llama_layout(config);
  json["architectures"] = {"StableLmForCausalLM"};
  json["model_type"] = "stablelm";
  json.erase("rms_norm_eps");
  json["layer_norm_eps"] = config.norm.epsilon;
  json.erase("head_dim");
  json["partial_rotary_factor"] = partial_rotary_factor(config);
  json["use_qkv_bias"] = config.qkv_bias;
  json["qk_layernorm"] = config.qk_norm == QkNormKind::kHeadLayer;
  json["use_parallel_residual"] = config.residual == ResidualKind::kParallel;
  json["hidden_dropout"] = 0.0;
  return json;
}

}  // namespace

Family stablelm_family() {
  return {"stablelm", parse_stablelm, llama_layout_weights, write_stablelm};
}

}  // namespace packtrain
