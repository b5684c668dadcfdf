#include "models/families/cohere.h"

#include <nlohmann/json.hpp>

#include "models/families/cohere2.h"
#include "models/families/llama_layout.h"

namespace packtrain {
namespace {

DecoderConfig parse_cohere(const nlohmann::json& json) {
  ConfigReader reader(json);
  DecoderConfig config;
  config.family = "cohere";
  read_cohere_layout(reader, config, 500000.0);
  if (reader.boolean("use_qk_norm", false)) config.qk_norm = QkNormKind::kHeadLayer;
  reader.finish(other_names(config));
  return config;
}

nlohmann::json write_cohere(const DecoderConfig& config) {
  nlohmann::json json = write_cohere_layout(config);
  json["architectures"] = {"CohereForCausalLM"};
  json["model_type"] = "cohere";
  json["use_qk_norm"] = config.qk_norm == QkNormKind::kHeadLayer;
  return json;
}

std::vector<WeightPiece> weights_of_cohere(const DecoderConfig& config) {
  return llama_layout_weights(config, {.stacked_head_norms = true});
}

}  // namespace

Family cohere_family() {
  return {"cohere", parse_cohere, weights_of_cohere, write_cohere};
}

}  // namespace packtrain
