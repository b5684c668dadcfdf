#include "models/families/gpt_oss.h"

#include <nlohmann/json.hpp>

#include "models/families/expert_layout.h"
#include "models/families/layer_windows.h"
#include "models/families/llama_layout.h"

namespace packtrain {
namespace {

constexpr std::int64_t kWindow = 128;  // where a config names none

void refuse_quantized(ConfigReader& reader) {
  if (!reader.has("quantization_config")) return;
  reader.fail("quantization_config",
              "says that the weights are quantized (MXFP4 in published folders), want bfloat16 or "
              "float32: load the model with transformers' Mxfp4Config(dequantize=True) and "
              "save_pretrained it");
}

DecoderConfig parse(const nlohmann::json& json) {
  ConfigReader reader(json);
  DecoderConfig config;
  config.family = "gpt_oss";
  refuse_quantized(reader);
  reader.integer("num_key_value_heads");
  const char* rotary = reader.has("rope_scaling") ? "rope_scaling" : "rope_parameters";
  if (!reader.has(rotary)) reader.fail(rotary, "is missing");
  read_llama_layout(
      reader, config,
      {.head_dim = 64, .max_positions = 131072, .epsilon = 1e-5, .rotary = {.base = 150000.0}});
  config.activation.kind = ActivationKind::kClampedSwish;  // its hidden_act is silu
  reader.require("swiglu_limit", kSwishLimit);
  config.attention_sinks = true;
  config.qkv_bias = reader.boolean("attention_bias", true);
  config.attention_output_bias = config.qkv_bias;
  config.experts.num_experts = reader.integer("num_local_experts", 128);
  config.experts.intermediate_size = config.intermediate_size;
  config.experts.softmax_first = false;
  config.experts.router_bias = config.experts.bias = true;
  read_experts_per_token(reader, config, 4);
  reader.require("experts_per_token", config.experts.experts_per_token);  // once more, as published
  read_auxiliary_loss(reader, config);
  set_expert_layers(config, [](std::int64_t) { return true; });
  read_layer_types(reader, config, reader.integer_or_none("sliding_window", kWindow),
                   [](std::int64_t layer) { return layer % 2 == 0; });
  reader.ignore({"initial_context_length"});
  reader.finish();
  return config;
}

nlohmann::json write(const DecoderConfig& config) {
  DecoderConfig named = config;
  named.activation.kind = ActivationKind::kSilu;
  nlohmann::json json = write_llama_layout(named);
  json["architectures"] = {"GptOssForCausalLM"};
  json["model_type"] = "gpt_oss";
  json["swiglu_limit"] = kSwishLimit;
  json["attention_bias"] = config.qkv_bias;
  json["num_local_experts"] = config.experts.num_experts;
  json["num_experts_per_tok"] = config.experts.experts_per_token;
  write_layer_types(config, kWindow, json);
  write_auxiliary_loss(config, json);
  return json;
}

// gate_up_proj [E, H, 2 I] has gate and up in turns, and both projections are [in, out].
void add_experts(WeightMap& map, const DecoderConfig& config, std::int64_t layer) {
  const std::string ours = "layers." + std::to_string(layer) + ".mlp.";
  const std::string theirs = "model." + ours;
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t inner = config.experts.intermediate_size;
  const std::int64_t count = config.experts.num_experts;
  map.linear(ours + "router", theirs + "router", count, hidden, true);
  for (std::int64_t e = 0; e < count; ++e) {
    for (const std::int64_t turn : {0, 1}) {
      map.strided(ours + "experts.gate_up.weight", theirs + "experts.gate_up_proj",
                  {count, hidden, 2 * inner},
                  {.begin = e * hidden * 2 * inner + turn,
                   .rows = inner,
                   .columns = hidden,
                   .row_stride = 2,
                   .column_stride = 2 * inner});
      map.strided(ours + "experts.gate_up.bias", theirs + "experts.gate_up_proj_bias",
                  {count, 2 * inner},
                  {.begin = e * 2 * inner + turn, .columns = inner, .column_stride = 2});
    }
    map.transposed(ours + "experts.down.weight", theirs + "experts.down_proj",
                   {count, inner, hidden}, e * inner * hidden, hidden, inner);
  }
  map.whole(ours + "experts.down.bias", theirs + "experts.down_proj_bias", {count, hidden});
}

std::vector<WeightPiece> weights(const DecoderConfig& config) {
  return llama_layout_weights(
      config, [&](WeightMap& map, std::int64_t layer) { add_experts(map, config, layer); });
}

}  // namespace

Family gpt_oss_family() {
  return {"gpt_oss", parse, weights, write};
}

}  // namespace packtrain
