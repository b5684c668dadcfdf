#include "models/families/family.h"
#include "models/families/afmoe.h"
#include "models/families/cohere.h"
#include "models/families/ernie4_5_moe.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "framework/core/error.h"
#include "framework/core/json.h"
#include "models/families/apertus.h"
#include "models/families/arcee.h"
#include "models/families/bamba.h"
#include "models/families/cohere2.h"
#include "models/families/dbrx.h"
#include "models/families/deepseek_v2.h"
#include "models/families/deepseek_v3.h"
#include "models/families/dots1.h"
#include "models/families/ernie4_5.h"
#include "models/families/exaone4.h"
#include "models/families/exaone_moe.h"
#include "models/families/falcon.h"
#include "models/families/falcon_h1.h"
#include "models/families/flex_olmo.h"
#include "models/families/gemma.h"
#include "models/families/gemma2.h"
#include "models/families/gemma3_text.h"
#include "models/families/gemma3n_text.h"
#include "models/families/gemma4_text.h"
#include "models/families/glm.h"
#include "models/families/glm4.h"
#include "models/families/glm4_moe.h"
#include "models/families/glm4_moe_lite.h"
#include "models/families/gpt2.h"
#include "models/families/gpt_neox.h"
#include "models/families/gpt_oss.h"
#include "models/families/granite.h"
#include "models/families/granite_swa.h"
#include "models/families/granitemoe.h"
#include "models/families/granitemoe_swa.h"
#include "models/families/granitemoehybrid.h"
#include "models/families/granitemoeshared.h"
#include "models/families/helium.h"
#include "models/families/hunyuan_v1_dense.h"
#include "models/families/hunyuan_v1_moe.h"
#include "models/families/hy_v3.h"
#include "models/families/hyperclovax.h"
#include "models/families/jais2.h"
#include "models/families/lfm2.h"
#include "models/families/lfm2_moe.h"
#include "models/families/llama.h"
#include "models/families/llama4_text.h"
#include "models/families/minimax_m2.h"
#include "models/families/ministral3.h"
#include "models/families/mistral.h"
#include "models/families/mixtral.h"
#include "models/families/nemotron.h"
#include "models/families/nemotron_h.h"
#include "models/families/olmo.h"
#include "models/families/olmo2.h"
#include "models/families/olmo3.h"
#include "models/families/olmo_hybrid.h"
#include "models/families/olmoe.h"
#include "models/families/phi.h"
#include "models/families/phi3.h"
#include "models/families/phimoe.h"
#include "models/families/qwen2.h"
#include "models/families/qwen2_moe.h"
#include "models/families/qwen3.h"
#include "models/families/qwen3_5.h"
#include "models/families/qwen3_moe.h"
#include "models/families/qwen3_next.h"
#include "models/families/seed_oss.h"
#include "models/families/smollm3.h"
#include "models/families/solar_open.h"
#include "models/families/stablelm.h"
#include "models/families/starcoder2.h"
#include "models/families/text_part.h"
#include "models/families/unknown_type.h"
#include "models/families/vaultgemma.h"
#include "models/families/youtu.h"

namespace packtrain {

namespace {

// Limits for sizes in a config: ten times those of any published training. They keep sizes from
// overflowing and lists of layers from exhausting memory.
constexpr std::int64_t kMaxLayers = 10'000;
constexpr std::int64_t kMaxExpertsOfAllLayers = 1'000'000;
constexpr double kMaxParameters = 1e14;

void check_model_type(const nlohmann::json& config) {
  std::string fault = "key 'model_type' is missing";
  if (!config.is_object()) {
    fault = std::string("is not an object, got ") + config.type_name();
  } else if (const auto found = config.find("model_type"); found != config.end()) {
    if (found->is_string()) return;
    fault = "key 'model_type' is " + found->dump() + ", want a string";
  }
  throw Error(ErrorCategory::kConfig, "model config: " + fault,
              "give the Hugging Face model_type, such as llama");
}

void check_num_layers(const nlohmann::json& config) {
  for (const char* key : {"num_hidden_layers", "n_layers", "n_layer"}) {
    const auto found = config.find(key);
    if (found == config.end() || !found->is_number() || found->get<double>() <= kMaxLayers)
      continue;
    throw Error(ErrorCategory::kConfig, "model config: key '" + std::string(key) + "' is " +
                                            found->dump() + ", want at most " +
                                            std::to_string(kMaxLayers));
  }
}

void check_num_experts(const DecoderConfig& config) {
  // Cannot overflow: layers and experts are below 2^31.
  if (config.num_layers * config.experts.num_experts <= kMaxExpertsOfAllLayers) return;
  throw Error(ErrorCategory::kConfig,
              "model config: " + std::to_string(config.experts.num_experts) +
                  " experts in each of " + std::to_string(config.num_layers) +
                  " layers, want at most " + std::to_string(kMaxExpertsOfAllLayers) + " in all");
}

void check_num_parameters(const DecoderConfig& config) {
  const auto hidden = static_cast<double>(config.hidden_size);
  const auto head_dim = static_cast<double>(config.head_dim);
  const auto heads = static_cast<double>(config.num_heads + config.num_kv_heads);
  const auto experts = static_cast<double>(config.experts.num_experts) *
                       static_cast<double>(config.experts.intermediate_size);
  const double of_layer =
      hidden * (heads * head_dim + static_cast<double>(config.intermediate_size) + experts);
  const double least = static_cast<double>(config.num_layers) * of_layer +
                       static_cast<double>(config.vocab_size) * hidden;
  if (least <= kMaxParameters) return;
  throw Error(ErrorCategory::kConfig, "model config: its sizes (hidden_size " +
                                          std::to_string(config.hidden_size) + ", vocab_size " +
                                          std::to_string(config.vocab_size) +
                                          ", ...) make more parameters than any model has");
}

}  // namespace

std::span<const Family> families() {
  // clang-format off: one a line
  static const std::array table = {
      afmoe_family(),
      apertus_family(),
      arcee_family(),
      bamba_family(),
      cohere_family(),
      cohere2_family(),
      dbrx_family(),
      deepseek_v2_family(),
      deepseek_v3_family(),
      dots1_family(),
      ernie4_5_family(),
      ernie4_5_moe_family(),
      exaone4_family(),
      exaone_moe_family(),
      falcon_family(),
      falcon_h1_family(),
      flex_olmo_family(),
      gemma_family(),
      gemma2_family(),
      gemma3_text_family(),
      gemma3n_text_family(),
      gemma4_text_family(),
      glm_family(),
      glm4_family(),
      glm4_moe_family(),
      glm4_moe_lite_family(),
      gpt2_family(),
      gpt_neox_family(),
      gpt_oss_family(),
      granite_family(),
      granite_swa_family(),
      granitemoe_family(),
      granitemoe_swa_family(),
      granitemoehybrid_family(),
      granitemoeshared_family(),
      helium_family(),
      hunyuan_v1_dense_family(),
      hunyuan_v1_moe_family(),
      hy_v3_family(),
      hyperclovax_family(),
      jais2_family(),
      lfm2_family(),
      lfm2_moe_family(),
      llama_family(),
      llama4_text_family(),
      minimax_m2_family(),
      ministral3_family(),
      mistral_family(),
      mixtral_family(),
      nemotron_family(),
      nemotron_h_family(),
      olmo_family(),
      olmo2_family(),
      olmo3_family(),
      olmo_hybrid_family(),
      olmoe_family(),
      phi_family(),
      phi3_family(),
      phimoe_family(),
      qwen2_family(),
      qwen2_moe_family(),
      qwen3_family(),
      qwen3_5_family(),
      qwen3_5_moe_family(),
      qwen3_moe_family(),
      qwen3_next_family(),
      seed_oss_family(),
      smollm3_family(),
      solar_open_family(),
      stablelm_family(),
      starcoder2_family(),
      vaultgemma_family(),
      youtu_family(),
  };
  // clang-format on
  return table;
}

const Family& find_family(const std::string& model_type) {
  std::string known;
  for (const Family& family : families()) {
    if (family.model_type == model_type) {
      return family;
    }
    known += (known.empty() ? "" : ", ") + std::string(family.model_type);
  }
  throw Error(ErrorCategory::kConfig,
              "model config: model_type is '" + model_type + "', want one of: " + known,
              "models/README.md says how to add a family");
}

std::vector<WeightPiece> module_weights(const DecoderConfig& config) {
  const Family& family = find_family(config.family);
  return family.modules != nullptr ? family.modules(config) : family.weights(config);
}

DecoderConfig parse_decoder_config(const std::string& json_text) {
  nlohmann::json config;
  try {
    config = parse_hf_json(json_text);
  } catch (const JsonFault& fault) {
    throw Error(ErrorCategory::kConfig, "model config: " + std::string(fault.what()));
  }
  check_model_type(config);
  config = text_part(config);
  const auto type = config["model_type"].get<std::string>();
  const auto is_known = [&](const Family& family) { return type == family.model_type; };
  if (std::ranges::none_of(families(), is_known)) refuse_unknown_type(config);
  const Family& family = find_family(type);
  check_num_layers(config);
  const DecoderConfig decoder = family.parse(config);
  check_num_experts(decoder);
  check_num_parameters(decoder);
  return decoder;
}

}  // namespace packtrain
