#include "models/families/flex_olmo.h"

#include <nlohmann/json.hpp>

#include "models/families/olmo2.h"
#include "models/families/olmoe.h"
#include "models/families/qwen_experts.h"

namespace packtrain {
namespace {

DecoderConfig parse_flex_olmo(const nlohmann::json& json) {
  ConfigReader reader(json);
  DecoderConfig config;
  config.family = "flex_olmo";
  read_olmo2_layout(reader, config, {.max_positions = 4096, .rotary = {.base = 500000.0}});
  read_olmo_experts(reader, config, {.num_experts = 7, .experts_per_token = 5});
  reader.finish(other_names(config));
  return config;
}

nlohmann::json write_flex_olmo(const DecoderConfig& config) {
  nlohmann::json json = write_olmoe_layout(config);
  json["architectures"] = {"FlexOlmoForCausalLM"};
  json["model_type"] = "flex_olmo";
  return json;
}

}  // namespace

Family flex_olmo_family() {
  return {.model_type = "flex_olmo",
          .parse = parse_flex_olmo,
          .weights = qwen_expert_weights,
          .write = write_flex_olmo,
          .other_weights = stacked_qwen_expert_weights};
}

}  // namespace packtrain
