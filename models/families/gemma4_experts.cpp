#include "models/families/gemma4_experts.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "models/families/expert_layout.h"

namespace packtrain {
namespace {

constexpr const char* kEnableKey = "enable_moe_block";
constexpr const char* kCountKey = "num_experts";
constexpr const char* kChosenKey = "top_k_experts";
constexpr const char* kExpertWidthKey = "moe_intermediate_size";

}  // namespace

void read_gemma4_experts(ConfigReader& reader, DecoderConfig& config) {
  if (!reader.boolean(kEnableKey, false)) {
    return reader.ignore({kCountKey, kChosenKey, kExpertWidthKey});
  }
  ExpertsConfig& experts = config.experts;
  experts.num_experts = reader.integer(kCountKey);
  read_experts_per_token(reader, config, reader.integer(kChosenKey), kChosenKey);
  experts.intermediate_size = reader.integer(kExpertWidthKey);
  experts.normalize_weights = experts.expert_scale = true;
  experts.next_to_mlp = experts.router_norm = true;
  experts.logit_multiplier = 1 / std::sqrt(static_cast<double>(config.hidden_size));
  set_expert_layers(config, [](std::int64_t) { return true; });
}

void write_gemma4_experts(const DecoderConfig& config, nlohmann::json& json) {
  const ExpertsConfig& experts = config.experts;
  json[kEnableKey] = experts.num_experts > 0;
  if (experts.num_experts == 0) return;
  json[kCountKey] = experts.num_experts;
  json[kChosenKey] = experts.experts_per_token;
  json[kExpertWidthKey] = experts.intermediate_size;
}

void add_gemma4_experts(WeightMap& map, const DecoderConfig& config, std::int64_t layer) {
  if (!config.layer(layer).experts) return;
  const std::string ours = "layers." + std::to_string(layer) + ".mlp.";
  const std::string theirs = "model.layers." + std::to_string(layer) + ".";
  const std::int64_t hidden = config.hidden_size;
  map.norm(ours + "dense_post_norm", theirs + "post_feedforward_layernorm_1", hidden);
  map.norm(ours + "experts_norm", theirs + "pre_feedforward_layernorm_2", hidden);
  map.whole(ours + "router_norm.weight", theirs + "router.scale", {hidden});
  add_experts_stacked(map, config, layer,
                      {"router.proj", "experts.gate_up_proj", "experts.down_proj"});
  map.whole(ours + "router.expert_scale", theirs + "router.per_expert_scale",
            {config.experts.num_experts});
  map.norm(ours + "experts_post_norm", theirs + "post_feedforward_layernorm_2", hidden);
}

}  // namespace packtrain
