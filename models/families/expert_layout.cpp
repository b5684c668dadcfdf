#include "models/families/expert_layout.h"

#include <nlohmann/json.hpp>

namespace packtrain {
namespace {

struct Prefixes {
  std::string ours;
  std::string theirs;
};

Prefixes prefixes_of(std::int64_t layer) {
  const std::string name = "layers." + std::to_string(layer) + ".";
  return {name + "mlp.", "model." + name};
}

}  // namespace

void set_expert_layers(DecoderConfig& config,
                       const std::function<bool(std::int64_t layer)>& has_experts) {
  config.layers.resize(static_cast<std::size_t>(config.num_layers));
  for (std::int64_t layer = 0; layer < config.num_layers; ++layer) {
    config.layers[static_cast<std::size_t>(layer)].experts = has_experts(layer);
  }
}

void read_experts_per_token(ConfigReader& reader, DecoderConfig& config, std::int64_t fallback,
                            const char* key) {
  config.experts.experts_per_token = reader.integer(key, fallback);
  if (config.experts.experts_per_token <= config.experts.num_experts) return;
  reader.fail(key, "is " + std::to_string(config.experts.experts_per_token) +
                       ", want at most the " + std::to_string(config.experts.num_experts) +
                       " experts");
}

void read_auxiliary_loss(ConfigReader& reader, DecoderConfig& config, double fallback) {
  const double coefficient = reader.number("router_aux_loss_coef", fallback);
  if (coefficient < 0) reader.fail("router_aux_loss_coef", "must not be negative");
  config.experts.auxiliary_loss = reader.boolean("output_router_logits", false) ? coefficient : 0.0;
}

void write_auxiliary_loss(const DecoderConfig& config, nlohmann::json& json) {
  const double coefficient = config.experts.auxiliary_loss;
  json["output_router_logits"] = coefficient != 0;
  if (coefficient != 0) json["router_aux_loss_coef"] = coefficient;
}

void add_experts_apart(WeightMap& map, const DecoderConfig& config, std::int64_t layer,
                       const ExpertNames& names) {
  const auto [ours, theirs] = prefixes_of(layer);
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t inner = config.experts.intermediate_size;
  map.linear(ours + "router", theirs + names.router, config.experts.num_experts, hidden, false);
  for (std::int64_t e = 0; e < config.experts.num_experts; ++e) {
    const std::string expert = theirs + names.experts + "." + std::to_string(e) + ".";
    if (config.activation.gated) {
      map.linear(ours + "experts.gate_up", expert + names.gate, inner, hidden, false);
    }
    map.linear(ours + "experts.gate_up", expert + names.up, inner, hidden, false);
    map.linear(ours + "experts.down", expert + names.down, hidden, inner, false);
  }
}

void add_experts_stacked(WeightMap& map, const DecoderConfig& config, std::int64_t layer,
                         const StackedExpertNames& names) {
  const auto [ours, theirs] = prefixes_of(layer);
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t inner = config.experts.intermediate_size;
  const std::int64_t num_experts = config.experts.num_experts;
  map.linear(ours + "router", theirs + names.router, num_experts, hidden, false);
  map.whole(ours + "experts.gate_up.weight", theirs + names.gate_up,
            {num_experts, config.activation.gated ? 2 * inner : inner, hidden});
  map.whole(ours + "experts.down.weight", theirs + names.down, {num_experts, hidden, inner});
}

void add_shared_expert(WeightMap& map, const DecoderConfig& config, std::int64_t layer,
                       const std::string& name) {
  const auto [ours, theirs] = prefixes_of(layer);
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t inner = config.experts.shared_intermediate_size;
  const bool gated = config.activation.gated;
  const bool bias = config.experts.shared_bias;
  const std::string up = gated ? "shared.gate_up" : "shared.up";
  if (gated) map.linear(ours + up, theirs + name + ".gate_proj", inner, hidden, bias);
  map.linear(ours + up, theirs + name + ".up_proj", inner, hidden, bias);
  map.linear(ours + "shared.down", theirs + name + ".down_proj", hidden, inner, bias);
}

}  // namespace packtrain
