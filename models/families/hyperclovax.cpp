#include "models/families/hyperclovax.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "models/families/granite.h"
#include "models/families/llama_layout.h"

namespace packtrain {
namespace {

constexpr const char* kLogitsOfHyperclovax = "logits_scaling";

DecoderConfig parse_hyperclovax(const nlohmann::json& json) {
  ConfigReader reader(json);
  DecoderConfig config;
  config.family = "hyperclovax";
  read_granite_layout(reader, config, {});
  config.norm_after = reader.boolean("use_post_norm", true);
  // transformers has another fallback than Granite's, and multiplies logits.
  if (!reader.has("attention_multiplier")) {
    config.attention_scale = std::pow(static_cast<double>(config.head_dim), -0.5);
  }
  config.logit_multiplier = reader.number(kLogitsOfHyperclovax, 1.0);
  reader.finish(other_names(config));
  return config;
}

nlohmann::json write_hyperclovax(const DecoderConfig& config) {
  nlohmann::json json = write_granite_layout(config);
  json["architectures"] = {"HyperCLOVAXForCausalLM"};
  json["model_type"] = "hyperclovax";
  json["use_post_norm"] = config.norm_after;
  json[kLogitsOfHyperclovax] = config.logit_multiplier;
  return json;
}

std::vector<WeightPiece> weights_of_hyperclovax(const DecoderConfig& config) {
  if (!config.norm_after) return llama_layout_weights(config);
  return with_module_names(llama_layout_weights(config),
                           {{"post_attention_layernorm", "post_norm1"},
                            {"pre_feedforward_layernorm", "post_attention_layernorm"},
                            {"post_feedforward_layernorm", "post_norm2"}});
}

}  // namespace

Family hyperclovax_family() {
  return {"hyperclovax", parse_hyperclovax, weights_of_hyperclovax, write_hyperclovax};
}

}  // namespace packtrain
