#include "models/families/sigmoid_experts.h"

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/families/llama_layout.h"
#include "models/families/qwen_experts.h"

namespace packtrain {
namespace {

constexpr const char* kFirstDense = "first_k_dense_replace";
constexpr const char* kMlpTypes = "mlp_layer_types";

void add_other_sigmoid_tensors(WeightMap& map, const DecoderConfig& config, std::int64_t layer,
                               const SigmoidExpertsNames& names) {
  const std::string name = "layers." + std::to_string(layer) + ".mlp.";
  map.constant(name + "router.choice_bias", "model." + name + names.choice_bias,
               {config.experts.num_experts});
  add_shared_expert(map, config, layer, "mlp.shared_experts");
}

}  // namespace

void read_expert_groups(ConfigReader& reader, ExpertsConfig& experts,
                        const SigmoidExpertsDefaults& defaults, std::int64_t least) {
  experts.num_groups = reader.integer("n_group", defaults.num_groups);
  experts.groups_per_token = reader.integer("topk_group", defaults.groups_per_token);
  const std::int64_t per_group = experts.num_experts / experts.num_groups;
  const bool has_groups = experts.num_groups > 1;
  if (experts.num_experts % experts.num_groups != 0 || (has_groups && per_group < least)) {
    reader.fail("n_group", "is " + std::to_string(experts.num_groups) + ", want groups of " +
                               std::to_string(least) + " or more of the " +
                               std::to_string(experts.num_experts) + " experts");
  }
  if (experts.groups_per_token > experts.num_groups) {
    reader.fail("topk_group", "must not be above n_group");
  }
  if (experts.experts_per_token > experts.groups_per_token * per_group) {
    reader.fail("num_experts_per_tok", "must not be above the experts of topk_group groups");
  }
}

void read_sigmoid_experts(ConfigReader& reader, DecoderConfig& config,
                          const SigmoidExpertsDefaults& defaults) {
  // A group's score adds those of two experts.
  constexpr std::int64_t kLeastOfGroup = 2;
  ExpertsConfig& experts = config.experts;
  experts.router = RouterKind::kSigmoid;
  experts.choice_bias = true;
  experts.num_experts = reader.integer(defaults.names.num_experts, defaults.num_experts);
  experts.intermediate_size = reader.integer("moe_intermediate_size", defaults.intermediate_size);
  experts.shared_intermediate_size =
      reader.integer(defaults.names.num_shared, 1) * experts.intermediate_size;
  experts.normalize_weights = reader.boolean("norm_topk_prob", defaults.normalize);
  experts.weight_multiplier = reader.number("routed_scaling_factor", defaults.weight_multiplier);
  read_experts_per_token(reader, config, defaults.experts_per_token);
  read_expert_groups(reader, experts, defaults, kLeastOfGroup);
  // Other models with these keys have them. The decoder computes only these values.
  reader.require("scoring_func", "sigmoid");
  reader.require("topk_method", "noaux_tc");
  reader.ignore({"num_nextn_predict_layers", "num_mtp_layers"});
}

void read_first_dense_layers(ConfigReader& reader, DecoderConfig& config, std::int64_t fallback) {
  const std::int64_t first = reader.count(kFirstDense, fallback);
  set_expert_layers(config, [&](std::int64_t layer) { return layer >= first; });
}

void read_mlp_layer_types(ConfigReader& reader, DecoderConfig& config, std::int64_t num_dense) {
  std::vector<std::string> types = reader.texts(kMlpTypes);
  if (types.empty()) {
    for (std::int64_t layer = 0; layer < config.num_layers; ++layer) {
      types.emplace_back(layer < num_dense ? "dense" : "sparse");
    }
  }
  if (std::ssize(types) != config.num_layers) {
    reader.fail(kMlpTypes, "has " + std::to_string(types.size()) + " layers, want " +
                               std::to_string(config.num_layers));
  }
  for (const std::string& type : types) {
    if (type == "dense" || type == "sparse") continue;
    reader.fail(kMlpTypes, "has \"" + type + "\", want \"dense\" or \"sparse\" for each layer");
  }
  set_expert_layers(config, [&](std::int64_t layer) {
    return types[static_cast<std::size_t>(layer)] == "sparse";
  });
}

void write_mlp_layer_types(const DecoderConfig& config, nlohmann::json& json) {
  json[kMlpTypes] = nlohmann::json::array();
  for (std::int64_t layer = 0; layer < config.num_layers; ++layer) {
    json[kMlpTypes].push_back(config.layer(layer).experts ? "sparse" : "dense");
  }
}

std::int64_t num_first_dense_layers(const DecoderConfig& config) {
  std::int64_t first = 0;
  while (first < config.num_layers && !config.layer(first).experts) ++first;
  return first;
}

void write_sigmoid_experts(const DecoderConfig& config, nlohmann::json& json,
                           const SigmoidExpertsNames& names) {
  const ExpertsConfig& experts = config.experts;
  json[names.num_experts] = experts.num_experts;
  json["num_experts_per_tok"] = experts.experts_per_token;
  json["moe_intermediate_size"] = experts.intermediate_size;
  json[names.num_shared] = experts.shared_intermediate_size / experts.intermediate_size;
  json["norm_topk_prob"] = experts.normalize_weights;
  json["routed_scaling_factor"] = experts.weight_multiplier;
  json["n_group"] = experts.num_groups;
  json["topk_group"] = experts.groups_per_token;
  json[kFirstDense] = num_first_dense_layers(config);
  json["num_nextn_predict_layers"] = 0;
}

void add_sigmoid_experts(WeightMap& map, const DecoderConfig& config, std::int64_t layer,
                         const SigmoidExpertsNames& names) {
  add_qwen_experts(map, config, layer);
  add_other_sigmoid_tensors(map, config, layer, names);
}

void add_stacked_sigmoid_experts(WeightMap& map, const DecoderConfig& config, std::int64_t layer) {
  add_stacked_qwen_experts(map, config, layer);
  add_other_sigmoid_tensors(map, config, layer, {});
}

std::vector<WeightPiece> sigmoid_expert_weights(const DecoderConfig& config) {
  return llama_layout_weights(
      config, [&](WeightMap& map, std::int64_t layer) { add_sigmoid_experts(map, config, layer); });
}

std::vector<std::vector<WeightPiece>> stacked_sigmoid_expert_weights(const DecoderConfig& config) {
  return {llama_layout_weights(config, [&](WeightMap& map, std::int64_t layer) {
    add_stacked_sigmoid_experts(map, config, layer);
  })};
}

}  // namespace packtrain
