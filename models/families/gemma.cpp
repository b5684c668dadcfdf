#include "models/families/gemma.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "models/families/activation_config.h"

namespace packtrain {
namespace {

DecoderConfig parse_gemma(const nlohmann::json& json) {
  ConfigReader reader(json);
  DecoderConfig config;
  config.family = "gemma";
  read_gemma_layout(
      reader, config,
      {.head_dim = 256, .max_positions = 8192, .tied = true, .activation = "gelu_pytorch_tanh"});
  // Gemma's first configs have this key; transformers 5 reads only hidden_act.
  if (reader.has("hidden_activation") &&
      read_activation(reader, "hidden_activation", "") != config.activation.kind) {
    reader.reject("hidden_activation", "and hidden_act are both set and differ");
  }
  reader.finish(other_names(config));
  return config;
}

nlohmann::json write_gemma(const DecoderConfig& config) {
  nlohmann::json json = write_gemma_layout(config);
  json["architectures"] = {"GemmaForCausalLM"};
  json["model_type"] = "gemma";
  return json;
}

// Reads a soft cap: null means none, and an absent key means `fallback`.
double read_cap(const nlohmann::json& json, ConfigReader& reader, const char* key,
                double fallback) {
  if (!json.contains(key)) return fallback;
  if (!reader.has(key)) return 0;
  const double cap = reader.number(key);
  if (cap <= 0) reader.fail(key, "must be positive, or null");
  return cap;
}

nlohmann::json cap_or_null(double cap) {
  return cap > 0 ? nlohmann::json(cap) : nlohmann::json(nullptr);
}

}  // namespace

void read_gemma_layout(ConfigReader& reader, DecoderConfig& config, const LlamaLayout& layout) {
  reader.integer("num_key_value_heads");  // the families' fallbacks are for their own sizes
  read_llama_layout(reader, config, layout);
  config.qkv_bias = reader.boolean("attention_bias", false);
  config.attention_output_bias = config.qkv_bias;
  config.norm.weight_offset = 1;
  config.embedding_multiplier = std::sqrt(static_cast<double>(config.hidden_size));
  reader.require("use_bidirectional_attention", false);
  reader.ignore({"cache_implementation"});
}

nlohmann::json write_gemma_layout(const DecoderConfig& config) {
  nlohmann::json json = write_llama_layout(config);
  json["attention_bias"] = config.qkv_bias;
  json["hidden_activation"] = json["hidden_act"];
  return json;
}

void read_gemma2_options(const nlohmann::json& json, ConfigReader& reader, DecoderConfig& config,
                         const SoftCaps& defaults) {
  reader.ignore({"hidden_act"});  // hidden_activation has priority
  config.norm_after = true;
  config.attention_scale =
      1.0 / std::sqrt(static_cast<double>(reader.integer("query_pre_attn_scalar", 256)));
  config.attention_soft_cap = read_cap(json, reader, "attn_logit_softcapping", defaults.attention);
  config.logit_soft_cap = read_cap(json, reader, "final_logit_softcapping", defaults.logits);
}

void write_gemma2_options(const DecoderConfig& config, nlohmann::json& json) {
  const double scale = config.attention_scale;
  json["query_pre_attn_scalar"] = std::llround(1.0 / (scale * scale));
  json["attn_logit_softcapping"] = cap_or_null(config.attention_soft_cap);
  json["final_logit_softcapping"] = cap_or_null(config.logit_soft_cap);
}

Family gemma_family() {
  return {"gemma", parse_gemma, llama_layout_weights, write_gemma};
}

}  // namespace packtrain
