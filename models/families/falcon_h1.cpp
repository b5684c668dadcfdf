#include "models/families/falcon_h1.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/families/llama_layout.h"
#include "models/families/mamba2_layout.h"

namespace packtrain {
namespace {

constexpr const char* kMambaWidth = "mamba_d_ssm";
constexpr const char* kPartFactors = "ssm_multipliers";
constexpr const char* kMlpFactors = "mlp_multipliers";

// Numbers of a list of the size that is wanted, or ones where it is not set.
std::vector<double> read_factors(ConfigReader& reader, const char* key, std::size_t size) {
  if (!reader.has(key)) return std::vector<double>(size, 1.0);
  std::vector<double> factors = reader.numbers(key);
  if (factors.size() != size) {
    reader.fail(key,
                "has " + std::to_string(factors.size()) + " numbers, want " + std::to_string(size));
  }
  return factors;
}

void read_multipliers_of_falcon_h1(ConfigReader& reader, DecoderConfig& config) {
  LayerMultipliers& factors = config.multipliers;
  config.embedding_multiplier = reader.number("embedding_multiplier", 1.0);
  config.logit_multiplier = reader.number("lm_head_multiplier", 1.0);
  factors.attention_input = reader.number("attention_in_multiplier", 1.0);
  factors.key = reader.number("key_multiplier", 1.0);
  factors.attention_output = reader.number("attention_out_multiplier", 1.0);
  factors.mamba2_input = reader.number("ssm_in_multiplier", 1.0);
  factors.mamba2_output = reader.number("ssm_out_multiplier", 1.0);
  std::ranges::copy(read_factors(reader, kPartFactors, factors.mamba2_parts.size()),
                    factors.mamba2_parts.begin());
  const std::vector<double> mlp = read_factors(reader, kMlpFactors, 2);
  factors.mlp_gate = mlp[0];
  factors.mlp_output = mlp[1];
  if (factors.key <= 0) reader.fail("key_multiplier", "must be positive");
  if (factors.attention_input <= 0) reader.fail("attention_in_multiplier", "must be positive");
  if (config.qkv_bias && factors.attention_input != 1) {
    reader.reject("attention_in_multiplier", "is not 1, which attention_bias must not have");
  }
  if (config.mamba2.projection_bias && factors.mamba2_input != 1) {
    reader.reject("ssm_in_multiplier", "is not 1, which mamba_proj_bias must not have");
  }
}

void read_mamba2_of_falcon_h1(ConfigReader& reader, DecoderConfig& config,
                              const nlohmann::json& json) {
  constexpr std::int64_t kDefaultWidth = 1024;
  Mamba2Config& mamba = config.mamba2;
  read_mamba2(
      reader, config, json,
      {.width = reader.integer_or_none(kMambaWidth, kDefaultWidth), .width_key = kMambaWidth});
  mamba.has_norm = reader.boolean("mamba_rms_norm", false);
  mamba.norm_groups = mamba.has_norm ? mamba.num_groups : 1;
  const bool gates_after = reader.boolean("mamba_norm_before_gate", true);
  if (mamba.has_norm && gates_after) {
    reader.reject("mamba_norm_before_gate", "is true, but the norm is computed after the gate");
  }
  if (reader.boolean("projectors_bias", false) != mamba.projection_bias) {
    reader.reject("projectors_bias", "must be equal to mamba_proj_bias");
  }
  config.layers.assign(static_cast<std::size_t>(config.num_layers), {.parallel_mamba2 = true});
}

DecoderConfig parse_falcon_h1(const nlohmann::json& json) {
  ConfigReader reader(json);
  DecoderConfig config;
  config.family = "falcon_h1";
  reader.integer("num_key_value_heads");
  read_llama_layout(reader, config, {.max_positions = 8192, .epsilon = 1e-5});
  config.qkv_bias = reader.boolean("attention_bias", false);
  config.attention_output_bias = config.qkv_bias;
  config.mlp_bias = reader.boolean("mlp_bias", false);
  read_mamba2_of_falcon_h1(reader, config, json);
  read_multipliers_of_falcon_h1(reader, config);
  // Published configs have these, which transformers does not read.
  reader.require("attn_layer_indices", nullptr);
  reader.require("mamba_use_mlp", true);
  reader.ignore({"mlp_expansion_factor", "num_logits_to_keep"});
  reader.finish(other_names(config));
  return config;
}

void write_multipliers_of_falcon_h1(const DecoderConfig& config, nlohmann::json& json) {
  const LayerMultipliers& factors = config.multipliers;
  json["embedding_multiplier"] = config.embedding_multiplier;
  json["lm_head_multiplier"] = config.logit_multiplier;
  json["attention_in_multiplier"] = factors.attention_input;
  json["key_multiplier"] = factors.key;
  json["attention_out_multiplier"] = factors.attention_output;
  json["ssm_in_multiplier"] = factors.mamba2_input;
  json["ssm_out_multiplier"] = factors.mamba2_output;
  json[kPartFactors] = factors.mamba2_parts;
  json[kMlpFactors] = {factors.mlp_gate, factors.mlp_output};
}

nlohmann::json write_falcon_h1(const DecoderConfig& config) {
  nlohmann::json json = write_llama_layout(config);
  json["architectures"] = {"FalconH1ForCausalLM"};
  json["model_type"] = "falcon_h1";
  json["attention_bias"] = config.qkv_bias;
  json["mlp_bias"] = config.mlp_bias;
  write_mamba2(config, json);
  json["mamba_expand"] = 2;  // mamba_d_ssm is set
  json[kMambaWidth] = config.mamba2.width();
  json["mamba_rms_norm"] = config.mamba2.has_norm;
  json["mamba_norm_before_gate"] = false;
  json["projectors_bias"] = config.mamba2.projection_bias;
  write_multipliers_of_falcon_h1(config, json);
  json["pad_token_id"] = nullptr;  // the family's default may be outside of the vocabulary
  return json;
}

}  // namespace

Family falcon_h1_family() {
  return {"falcon_h1", parse_falcon_h1, bamba_layout_weights, write_falcon_h1};
}

}  // namespace packtrain
