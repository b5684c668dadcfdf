#include "models/families/granitemoe_swa.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "models/families/granite_swa.h"
#include "models/families/granitemoeshared.h"
#include "models/families/llama_layout.h"

namespace packtrain {
namespace {

DecoderConfig parse_granitemoe_swa(const nlohmann::json& json) {
  ConfigReader reader(json);
  DecoderConfig config;
  config.family = "granitemoe_swa";
  read_granitemoeshared_layout(reader, config);
  read_granite_windows(json, reader, config);
  reader.require("output_router_logits", false);
  reader.finish(other_names(config));
  return config;
}

nlohmann::json write_granitemoe_swa(const DecoderConfig& config) {
  nlohmann::json json = write_granitemoeshared_layout(config);
  json["architectures"] = {"GraniteMoeSWAForCausalLM"};
  json["model_type"] = "granitemoe_swa";
  write_granite_windows(config, json);
  return json;
}

std::vector<WeightPiece> weights_of_granitemoe_swa(const DecoderConfig& config) {
  return tensors_of_granitemoeshared(config, add_granite_expert_modules);
}

std::vector<std::vector<WeightPiece>> other_weights_of_granitemoe_swa(const DecoderConfig& config) {
  return {tensors_of_granitemoeshared(config, add_granite_experts)};
}

}  // namespace

Family granitemoe_swa_family() {
  return {.model_type = "granitemoe_swa",
          .parse = parse_granitemoe_swa,
          .weights = weights_of_granitemoe_swa,
          .write = write_granitemoe_swa,
          .other_weights = other_weights_of_granitemoe_swa};
}

}  // namespace packtrain
