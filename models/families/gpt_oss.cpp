#include "models/families/gpt_oss.h"

#include <nlohmann/json.hpp>

#include "models/families/expert_layout.h"
#include "models/families/layer_windows.h"
#include "models/families/llama_layout.h"

namespace packtrain {
namespace {

constexpr std::int64_t kWindowOfGptOss = 128;  // default of the key

// Published folders have the experts in MXFP4, which is another layout of the same tensors.
void read_quantization(ConfigReader& reader) {
  if (!reader.has("quantization_config")) return;
  ConfigReader quantization = reader.object("quantization_config");
  quantization.require("quant_method", "mxfp4");
  quantization.ignore({"quant_method", "modules_to_not_convert", "dequantize"});
  quantization.finish();
}

DecoderConfig parse_gpt_oss(const nlohmann::json& json) {
  ConfigReader reader(json);
  DecoderConfig config;
  config.family = "gpt_oss";
  read_quantization(reader);
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
  reader.require("experts_per_token", config.experts.experts_per_token);  // also published
  read_auxiliary_loss(reader, config);
  set_expert_layers(config, [](std::int64_t) { return true; });
  read_layer_types(reader, config, reader.integer_or_none("sliding_window", kWindowOfGptOss),
                   [](std::int64_t layer) { return layer % 2 == 0; });
  reader.ignore({"initial_context_length"});
  reader.finish(other_names(config));
  return config;
}

nlohmann::json write_gpt_oss(const DecoderConfig& config) {
  DecoderConfig named = config;
  named.activation.kind = ActivationKind::kSilu;
  nlohmann::json json = write_llama_layout(named);
  json["architectures"] = {"GptOssForCausalLM"};
  json["model_type"] = "gpt_oss";
  json["swiglu_limit"] = kSwishLimit;
  json["attention_bias"] = config.qkv_bias;
  json["num_local_experts"] = config.experts.num_experts;
  json["num_experts_per_tok"] = config.experts.experts_per_token;
  write_layer_types(config, kWindowOfGptOss, json);
  write_auxiliary_loss(config, json);
  return json;
}

constexpr const char* kGateUpOfGptOss = "experts.gate_up_proj";
constexpr const char* kDownOfGptOss = "experts.down_proj";

struct Names {
  std::string ours;
  std::string theirs;
};

// The tensor interleaves gate and up. Plain projections are [in, out], encoded ones [out, in].
void add_projections(WeightMap& map, const DecoderConfig& config, const Names& names,
                     WeightCoding coding) {
  const bool coded = coding != WeightCoding::kPlain;
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t inner = config.experts.intermediate_size;
  const auto shape = [&](std::int64_t in, std::int64_t out) {
    return std::vector<std::int64_t>{config.experts.num_experts, coded ? out : in,
                                     coded ? in : out};
  };
  for (std::int64_t e = 0; e < config.experts.num_experts; ++e) {
    for (const std::int64_t turn : {0, 1}) {
      map.strided(names.ours + "experts.gate_up.weight", names.theirs + kGateUpOfGptOss,
                  shape(hidden, 2 * inner),
                  {.begin = e * 2 * inner * hidden + turn * (coded ? hidden : 1),
                   .rows = inner,
                   .columns = hidden,
                   .row_stride = 2 * (coded ? hidden : 1),
                   .column_stride = coded ? 1 : 2 * inner,
                   .coding = coding});
    }
    map.strided(names.ours + "experts.down.weight", names.theirs + kDownOfGptOss,
                shape(inner, hidden),
                {.begin = e * inner * hidden,
                 .rows = hidden,
                 .columns = inner,
                 .row_stride = coded ? inner : 1,
                 .column_stride = coded ? 1 : hidden,
                 .coding = coding});
  }
}

void add_router_and_biases(WeightMap& map, const DecoderConfig& config, const Names& names) {
  const std::int64_t inner = config.experts.intermediate_size;
  const std::int64_t count = config.experts.num_experts;
  map.linear(names.ours + "router", names.theirs + "router", count, config.hidden_size, true);
  for (std::int64_t e = 0; e < count; ++e) {
    for (const std::int64_t turn : {0, 1}) {
      map.strided(names.ours + "experts.gate_up.bias", names.theirs + kGateUpOfGptOss + "_bias",
                  {count, 2 * inner},
                  {.begin = e * 2 * inner + turn, .columns = inner, .column_stride = 2});
    }
  }
  map.whole(names.ours + "experts.down.bias", names.theirs + kDownOfGptOss + "_bias",
            {count, config.hidden_size});
}

std::vector<WeightPiece> weights_in(const DecoderConfig& config, WeightCoding coding) {
  return llama_layout_weights(config, [&](WeightMap& map, std::int64_t layer) {
    const std::string ours = "layers." + std::to_string(layer) + ".mlp.";
    const Names names{ours, "model." + ours};
    add_router_and_biases(map, config, names);
    add_projections(map, config, names, coding);
  });
}

std::vector<WeightPiece> weights_of_gpt_oss(const DecoderConfig& config) {
  return weights_in(config, WeightCoding::kPlain);
}

std::vector<std::vector<WeightPiece>> other_weights_of_gpt_oss(const DecoderConfig& config) {
  const bool in_blocks =
      config.hidden_size % kMxfp4Block == 0 && config.experts.intermediate_size % kMxfp4Block == 0;
  if (!in_blocks) return {};
  return {weights_in(config, WeightCoding::kMxfp4)};
}

}  // namespace

Family gpt_oss_family() {
  return {.model_type = "gpt_oss",
          .parse = parse_gpt_oss,
          .weights = weights_of_gpt_oss,
          .write = write_gpt_oss,
          .other_weights = other_weights_of_gpt_oss};
}

}  // namespace packtrain
