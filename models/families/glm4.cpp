#include "models/families/glm4.h"

#include <nlohmann/json.hpp>

#include "models/families/config_keys.h"
#include "models/families/glm.h"

namespace packtrain {
namespace {

DecoderConfig parse_glm4(const nlohmann::json& json) {
  ConfigReader reader(json);
  DecoderConfig config;
  config.family = "glm4";
  read_glm_layout(reader, config);
  config.norm_after = true;
  reader.finish(other_names(config));
  return config;
}

std::vector<WeightPiece> weights_of_glm4(const DecoderConfig& config) {
  return glm_weights(
      config, {.after_attention = "post_self_attn_layernorm", .after_mlp = "post_mlp_layernorm"});
}

nlohmann::json write_glm4(const DecoderConfig& config) {
  nlohmann::json json = write_glm_layout(config);
  json["architectures"] = {"Glm4ForCausalLM"};
  json["model_type"] = "glm4";
  return json;
}

}  // namespace

Family glm4_family() {
  return {"glm4", parse_glm4, weights_of_glm4, write_glm4};
}

}  // namespace packtrain
