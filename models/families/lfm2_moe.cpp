#include "models/families/lfm2_moe.h"

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/families/expert_layout.h"
#include "models/families/lfm2.h"
#include "models/families/llama_layout.h"
#include "models/families/sigmoid_experts.h"

namespace packtrain {
namespace {

constexpr double kSumEpsilon = 1e-6;

void read_experts_of_lfm2_moe(ConfigReader& reader, DecoderConfig& config) {
  ExpertsConfig& experts = config.experts;
  experts.router = RouterKind::kSigmoid;
  experts.sum_epsilon = kSumEpsilon;
  experts.num_experts = reader.integer("num_experts", 32);
  experts.intermediate_size = reader.integer("moe_intermediate_size", 1792);
  experts.choice_bias = reader.boolean("use_expert_bias", true);
  experts.normalize_weights = reader.boolean("norm_topk_prob", true);
  experts.weight_multiplier = reader.number("routed_scaling_factor", 1.0);
  read_experts_per_token(reader, config, 4);
  const std::int64_t num_dense = reader.count("num_dense_layers", 2);
  set_expert_layers(config, [&](std::int64_t layer) { return layer >= num_dense; });
}

DecoderConfig parse_lfm2_moe(const nlohmann::json& json) {
  ConfigReader reader(json);
  DecoderConfig config;
  config.family = "lfm2_moe";
  reader.integer("num_key_value_heads");
  config.intermediate_size = reader.integer("intermediate_size", 7168);
  read_lfm2_layout(reader, config);
  read_experts_of_lfm2_moe(reader, config);
  reader.ignore({"num_heads"});  // published configs have it, and transformers does not read it
  reader.finish(other_names(config));
  return config;
}

nlohmann::json write_lfm2_moe(const DecoderConfig& config) {
  const ExpertsConfig& experts = config.experts;
  nlohmann::json json = write_lfm2_layout(config);
  json["architectures"] = {"Lfm2MoeForCausalLM"};
  json["model_type"] = "lfm2_moe";
  json["num_experts"] = experts.num_experts;
  json["num_experts_per_tok"] = experts.experts_per_token;
  json["moe_intermediate_size"] = experts.intermediate_size;
  json["use_expert_bias"] = experts.choice_bias;
  json["norm_topk_prob"] = experts.normalize_weights;
  json["routed_scaling_factor"] = experts.weight_multiplier;
  json["num_dense_layers"] = num_first_dense_layers(config);
  return json;
}

// Their weights are separate tensors, as published, or stacked, as transformers' modules have them.
enum class ExpertTensors { kApart, kStacked };

std::vector<WeightPiece> tensors_of_lfm2_moe(const DecoderConfig& config, ExpertTensors tensors) {
  return lfm2_layout_weights(config, [&](WeightMap& map, std::int64_t layer) {
    if (tensors == ExpertTensors::kStacked) {
      add_experts_stacked(map, config, layer,
                          {"feed_forward.gate", "feed_forward.experts.gate_up_proj",
                           "feed_forward.experts.down_proj"});
    } else {
      add_experts_apart(map, config, layer,
                        {.router = "feed_forward.gate",
                         .experts = "feed_forward.experts",
                         .gate = "w1",
                         .up = "w3",
                         .down = "w2"});
    }
    if (!config.experts.choice_bias) return;
    const std::string name = "layers." + std::to_string(layer) + ".";
    map.constant(name + "mlp.router.choice_bias", "model." + name + "feed_forward.expert_bias",
                 {config.experts.num_experts});
  });
}

std::vector<WeightPiece> weights_of_lfm2_moe(const DecoderConfig& config) {
  return tensors_of_lfm2_moe(config, ExpertTensors::kApart);
}

std::vector<std::vector<WeightPiece>> other_weights_of_lfm2_moe(const DecoderConfig& config) {
  return {tensors_of_lfm2_moe(config, ExpertTensors::kStacked)};
}

}  // namespace

Family lfm2_moe_family() {
  return {.model_type = "lfm2_moe",
          .parse = parse_lfm2_moe,
          .weights = weights_of_lfm2_moe,
          .write = write_lfm2_moe,
          .other_weights = other_weights_of_lfm2_moe};
}

}  // namespace packtrain
