#include "models/families/starcoder2.h"

#include <nlohmann/json.hpp>

#include "models/families/layer_windows.h"
#include "models/families/llama_layout.h"
#include "models/families/plain_layout.h"

namespace packtrain {
namespace {

constexpr LlamaLayout kLayoutOfStarcoder2 = {.max_positions = 4096,
                                             .epsilon = 1e-5,
                                             .epsilon_key = "norm_epsilon",
                                             .tied = true,
                                             .activation = "gelu_pytorch_tanh",
                                             .gated = false};

DecoderConfig parse_starcoder2(const nlohmann::json& json) {
  ConfigReader reader(json);
  DecoderConfig config;
  config.family = "starcoder2";
  config.norm.kind = NormKind::kLayer;
  config.norm.has_bias = true;
  reader.integer("num_key_value_heads");  // transformers' fallback is 2 for any number of heads
  read_llama_layout(reader, config, kLayoutOfStarcoder2);
  config.initializer_range = reader.number("initializer_range", 0.018042);
  const bool bias = reader.boolean("use_bias", true);
  config.qkv_bias = bias;
  config.attention_output_bias = bias;
  config.mlp_bias = bias;
  if (reader.has("sliding_window")) {
    set_windows(config, reader.integer("sliding_window"), [](std::int64_t) { return true; });
  }
  // The published configs have these keys. The decoder computes only these values.
  reader.require("norm_type", "layer_norm");
  reader.require("mlp_type", "default");
  reader.require("scale_attn_weights", true);
  reader.ignore({"activation_function", "attention_softmax_in_fp32", "layer_norm_epsilon",
                 "scale_attention_softmax_in_fp32"});
  reader.finish(other_names(config));
  return config;
}

std::vector<WeightPiece> weights_of_starcoder2(const DecoderConfig& config) {
  return plain_layout_weights(
      config, {"self_attn.o_proj", "mlp.c_fc", "mlp.c_proj", /*final_norm=*/"norm"});
}

nlohmann::json write_starcoder2(const DecoderConfig& config) {
  nlohmann::json json = write_llama_layout(config);
  json["architectures"] = {"Starcoder2ForCausalLM"};
  json["model_type"] = "starcoder2";
  json.erase("rms_norm_eps");
  json["norm_epsilon"] = config.norm.epsilon;
  json["use_bias"] = config.qkv_bias;
  const std::int64_t window = window_of(config);
  json["sliding_window"] = window == 0 ? nlohmann::json(nullptr) : nlohmann::json(window);
  json["residual_dropout"] = 0.0;
  json["embedding_dropout"] = 0.0;
  return json;
}

}  // namespace

Family starcoder2_family() {
  return {"starcoder2", parse_starcoder2, weights_of_starcoder2, write_starcoder2};
}

}  // namespace packtrain
