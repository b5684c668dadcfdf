#include "models/families/vaultgemma.h"

#include <nlohmann/json.hpp>

#include "models/families/gemma2.h"
#include "models/families/llama_layout.h"

namespace packtrain {
namespace {

DecoderConfig parse_vaultgemma(const nlohmann::json& json) {
  ConfigReader reader(json);
  DecoderConfig config;
  config.family = "vaultgemma";
  read_gemma2_layout(json, reader, config);
  config.norm_after = false;
  reader.finish(other_names(config));
  return config;
}

nlohmann::json write_vaultgemma(const DecoderConfig& config) {
  nlohmann::json json = write_gemma2_layout(config);
  json["architectures"] = {"VaultGemmaForCausalLM"};
  json["model_type"] = "vaultgemma";
  return json;
}

std::vector<WeightPiece> weights_of_vaultgemma(const DecoderConfig& config) {
  return with_module_names(llama_layout_weights(config),
                           {{"post_attention_layernorm", "pre_feedforward_layernorm"}});
}

}  // namespace

Family vaultgemma_family() {
  return {"vaultgemma", parse_vaultgemma, weights_of_vaultgemma, write_vaultgemma};
}

}  // namespace packtrain
