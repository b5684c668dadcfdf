#include "models/families/ernie4_5_moe.h"

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/families/ernie4_5.h"
#include "models/families/expert_layout.h"
#include "models/families/llama_layout.h"
#include "models/families/qwen_experts.h"

namespace packtrain {
namespace {

constexpr const char* kFirstOfErnie = "moe_layer_start_index";
constexpr const char* kLastOfErnie = "moe_layer_end_index";
constexpr const char* kStepOfErnie = "moe_layer_interval";
constexpr const char* kLeastSumOfErnie = "moe_norm_min";

// The key -1 is the last layer.
std::int64_t read_last_of_ernie(const nlohmann::json& json, ConfigReader& reader,
                                const DecoderConfig& config) {
  const auto found = json.find(kLastOfErnie);
  if (found != json.end() && *found == -1) {
    reader.ignore({kLastOfErnie});
    return config.num_layers - 1;
  }
  return reader.count(kLastOfErnie, config.num_layers - 1);
}

void read_experts_of_ernie(const nlohmann::json& json, ConfigReader& reader,
                           DecoderConfig& config) {
  ExpertsConfig& experts = config.experts;
  experts.choice_bias = true;
  experts.normalize_weights = true;
  experts.sum_epsilon = reader.number(kLeastSumOfErnie, 1e-12);
  if (experts.sum_epsilon <= 0) reader.fail(kLeastSumOfErnie, "must be positive");
  experts.num_experts = reader.integer("moe_num_experts", 64);
  experts.intermediate_size = reader.integer("moe_intermediate_size", 1536);
  experts.shared_intermediate_size =
      reader.count("moe_num_shared_experts", 2) * experts.intermediate_size;
  experts.shared_bias = config.mlp_bias && experts.shared_intermediate_size > 0;
  read_experts_per_token(reader, config, 6, "moe_k");
  const std::int64_t first = reader.count(kFirstOfErnie, 1);
  const std::int64_t last = read_last_of_ernie(json, reader, config);
  const std::int64_t step = reader.integer(kStepOfErnie, 1);
  set_expert_layers(config, [&](std::int64_t layer) {
    return layer >= first && layer <= last && (layer + 1) % step == 0;
  });
  reader.require("output_router_logits", false);
  reader.ignore({"router_aux_loss_coef", "moe_capacity"});  // no token is dropped
  reader.require("moe_gate", "topk");
  reader.require("moe_use_aux_free", true);
}

DecoderConfig parse_ernie4_5_moe(const nlohmann::json& json) {
  ConfigReader reader(json);
  DecoderConfig config;
  config.family = "ernie4_5_moe";
  read_ernie_layout(reader, config, /*head_dim=*/0);
  config.head_bias = config.mlp_bias;
  read_experts_of_ernie(json, reader, config);
  reader.ignore({"num_nextn_predict_layers"});  // their tensors are left out
  reader.finish(other_names(config));
  return config;
}

// Keys that give experts to the same layers.
void write_layers_of_ernie(const DecoderConfig& config, nlohmann::json& json) {
  std::vector<std::int64_t> sparse;
  for (std::int64_t layer = 0; layer < config.num_layers; ++layer) {
    if (config.layer(layer).experts) sparse.push_back(layer);
  }
  const bool is_empty = sparse.empty();
  json[kFirstOfErnie] = is_empty ? config.num_layers : sparse.front();
  json[kLastOfErnie] = is_empty ? config.num_layers - 1 : sparse.back();
  json[kStepOfErnie] = sparse.size() < 2 ? 1 : sparse[1] - sparse[0];
}

nlohmann::json write_ernie4_5_moe(const DecoderConfig& config) {
  const ExpertsConfig& experts = config.experts;
  nlohmann::json json = write_ernie_layout(config);
  json["architectures"] = {"Ernie4_5_MoeForCausalLM"};
  json["model_type"] = "ernie4_5_moe";
  json["moe_num_experts"] = experts.num_experts;
  json["moe_k"] = experts.experts_per_token;
  json["moe_intermediate_size"] = experts.intermediate_size;
  json["moe_num_shared_experts"] = experts.shared_intermediate_size / experts.intermediate_size;
  json[kLeastSumOfErnie] = experts.sum_epsilon;
  write_layers_of_ernie(config, json);
  return json;
}

// The bias is a tensor [1, E] under `name`.
void add_ernie_bias(WeightMap& map, const DecoderConfig& config, std::int64_t layer,
                    const std::string& name) {
  const std::string mlp = "layers." + std::to_string(layer) + ".mlp.";
  map.constant(mlp + "router.choice_bias",
               "model." + mlp + name + "moe_statics.e_score_correction_bias",
               {1, config.experts.num_experts});
  if (config.experts.shared_intermediate_size > 0) {
    add_shared_expert(map, config, layer, "mlp.shared_experts");
  }
}

std::vector<WeightPiece> weights_of_ernie4_5_moe(const DecoderConfig& config) {
  return llama_layout_weights(config, [&](WeightMap& map, std::int64_t layer) {
    add_qwen_experts(map, config, layer);
    add_ernie_bias(map, config, layer, "");
  });
}

std::vector<std::vector<WeightPiece>> other_weights_of_ernie4_5_moe(const DecoderConfig& config) {
  return {llama_layout_weights(config, [&](WeightMap& map, std::int64_t layer) {
    add_stacked_qwen_experts(map, config, layer);
    add_ernie_bias(map, config, layer, "gate.");
  })};
}

}  // namespace

Family ernie4_5_moe_family() {
  return {.model_type = "ernie4_5_moe",
          .parse = parse_ernie4_5_moe,
          .weights = weights_of_ernie4_5_moe,
          .write = write_ernie4_5_moe,
          .other_weights = other_weights_of_ernie4_5_moe,
          .prediction_prefix = "model.mtp"};
}

}  // namespace packtrain
