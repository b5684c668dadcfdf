#include "models/families/granitemoeshared.h"

#include <nlohmann/json.hpp>

#include "models/families/llama_layout.h"

namespace packtrain {
namespace {

constexpr const char* kShared = "shared_intermediate_size";

DecoderConfig parse_granitemoeshared(const nlohmann::json& json) {
  ConfigReader reader(json);
  DecoderConfig config;
  config.family = "granitemoeshared";
  read_granitemoeshared_layout(reader, config);
  reader.finish(other_names(config));
  return config;
}

nlohmann::json write_granitemoeshared(const DecoderConfig& config) {
  nlohmann::json json = write_granitemoeshared_layout(config);
  json["architectures"] = {"GraniteMoeSharedForCausalLM"};
  json["model_type"] = "granitemoeshared";
  return json;
}

void add_shared_expert_of_granitemoeshared(WeightMap& map, const DecoderConfig& config,
                                           std::int64_t layer) {
  const std::int64_t inner = config.experts.shared_intermediate_size;
  if (inner == 0) return;
  const std::string name = "layers." + std::to_string(layer) + ".";
  const std::string theirs = "model." + name + "shared_mlp.";
  const std::string ours = name + "mlp.shared.";
  map.linear(ours + "gate_up", theirs + "input_linear", 2 * inner, config.hidden_size, false);
  map.linear(ours + "down", theirs + "output_linear", config.hidden_size, inner, false);
}

std::vector<WeightPiece> weights_of_granitemoeshared(const DecoderConfig& config) {
  return tensors_of_granitemoeshared(config, add_granite_experts);
}

std::vector<std::vector<WeightPiece>> other_weights_of_granitemoeshared(
    const DecoderConfig& config) {
  return {tensors_of_granitemoeshared(config, add_granite_expert_modules)};
}

}  // namespace

void read_granitemoeshared_layout(ConfigReader& reader, DecoderConfig& config) {
  read_granitemoe_layout(reader, config);
  config.experts.shared_intermediate_size = reader.count(kShared, 0);
}

nlohmann::json write_granitemoeshared_layout(const DecoderConfig& config) {
  nlohmann::json json = write_granitemoe_layout(config);
  json[kShared] = config.experts.shared_intermediate_size;
  return json;
}

std::vector<WeightPiece> tensors_of_granitemoeshared(const DecoderConfig& config,
                                                     decltype(add_granite_experts) add_experts) {
  return llama_layout_weights(config, [&](WeightMap& map, std::int64_t layer) {
    add_experts(map, config, layer);
    add_shared_expert_of_granitemoeshared(map, config, layer);
  });
}

Family granitemoeshared_family() {
  return {.model_type = "granitemoeshared",
          .parse = parse_granitemoeshared,
          .weights = weights_of_granitemoeshared,
          .write = write_granitemoeshared,
          .other_weights = other_weights_of_granitemoeshared};
}

}  // namespace packtrain
