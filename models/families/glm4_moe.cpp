#include "models/families/glm4_moe.h"

#include <nlohmann/json.hpp>
#include <string>

#include "models/families/llama_layout.h"
#include "models/families/qwen_experts.h"

namespace packtrain {
namespace {

constexpr const char* kFirstDense = "first_k_dense_replace";

// Groups of experts as transformers takes them: each has two or more, whose scores it adds.
void read_groups_of_glm4_moe(ConfigReader& reader, ExpertsConfig& experts) {
  experts.num_groups = reader.integer("n_group", 1);
  experts.groups_per_token = reader.integer("topk_group", 1);
  const std::int64_t per_group = experts.num_experts / experts.num_groups;
  const bool has_groups = experts.num_groups > 1;
  if (experts.num_experts % experts.num_groups != 0 || (has_groups && per_group < 2)) {
    reader.fail("n_group", "is " + std::to_string(experts.num_groups) +
                               ", want groups of two or more of the " +
                               std::to_string(experts.num_experts) + " experts");
  }
  if (experts.groups_per_token > experts.num_groups) {
    reader.fail("topk_group", "must not be above n_group");
  }
  if (experts.experts_per_token > experts.groups_per_token * per_group) {
    reader.fail("num_experts_per_tok", "must not be above the experts of topk_group groups");
  }
}

void read_experts_of_glm4_moe(ConfigReader& reader, DecoderConfig& config) {
  ExpertsConfig& experts = config.experts;
  experts.router = RouterKind::kSigmoid;
  experts.choice_bias = true;
  experts.num_experts = reader.integer("n_routed_experts", 128);
  experts.intermediate_size = reader.integer("moe_intermediate_size", 1408);
  experts.shared_intermediate_size =
      reader.integer("n_shared_experts", 1) * experts.intermediate_size;
  experts.normalize_weights = reader.boolean("norm_topk_prob", true);
  experts.weight_multiplier = reader.number("routed_scaling_factor", 1.0);
  read_experts_per_token(reader, config, 8);
  read_groups_of_glm4_moe(reader, experts);
  const std::int64_t first = reader.count(kFirstDense, 1);
  set_expert_layers(config, [&](std::int64_t layer) { return layer >= first; });
  // Other models with these keys have them. The decoder computes only these values.
  reader.require("scoring_func", "sigmoid");
  reader.require("topk_method", "noaux_tc");
  reader.ignore({"num_nextn_predict_layers", "num_mtp_layers"});
}

DecoderConfig parse_glm4_moe(const nlohmann::json& json) {
  ConfigReader reader(json);
  DecoderConfig config;
  config.family = "glm4_moe";
  reader.integer("num_key_value_heads");
  read_llama_layout(reader, config,
                    {.max_positions = 131072, .epsilon = 1e-5, .rotary = {.partial_factor = 0.5}});
  config.qkv_bias = reader.boolean("attention_bias", false);
  if (reader.boolean("use_qk_norm", false)) config.qk_norm = QkNormKind::kHead;
  read_experts_of_glm4_moe(reader, config);
  reader.finish(other_names(config));
  return config;
}

std::int64_t num_dense_layers_of_glm4_moe(const DecoderConfig& config) {
  std::int64_t first = 0;
  while (first < config.num_layers && !config.layer(first).experts) ++first;
  return first;
}

nlohmann::json write_glm4_moe(const DecoderConfig& config) {
  const ExpertsConfig& experts = config.experts;
  nlohmann::json json = write_llama_layout(config);
  json["architectures"] = {"Glm4MoeForCausalLM"};
  json["model_type"] = "glm4_moe";
  json["attention_bias"] = config.qkv_bias;
  json["use_qk_norm"] = config.qk_norm == QkNormKind::kHead;
  json["partial_rotary_factor"] = partial_rotary_factor(config);
  json["rope_parameters"]["partial_rotary_factor"] = partial_rotary_factor(config);
  json["n_routed_experts"] = experts.num_experts;
  json["num_experts_per_tok"] = experts.experts_per_token;
  json["moe_intermediate_size"] = experts.intermediate_size;
  json["n_shared_experts"] = experts.shared_intermediate_size / experts.intermediate_size;
  json["norm_topk_prob"] = experts.normalize_weights;
  json["routed_scaling_factor"] = experts.weight_multiplier;
  json["n_group"] = experts.num_groups;
  json["topk_group"] = experts.groups_per_token;
  json[kFirstDense] = num_dense_layers_of_glm4_moe(config);
  json["num_nextn_predict_layers"] = 0;
  return json;
}

void add_other_tensors_of_glm4_moe(WeightMap& map, const DecoderConfig& config,
                                   std::int64_t layer) {
  const std::string name = "layers." + std::to_string(layer) + ".mlp.";
  map.constant(name + "router.choice_bias", "model." + name + "gate.e_score_correction_bias",
               {config.experts.num_experts});
  add_shared_expert(map, config, layer, "mlp.shared_experts");
}

std::vector<WeightPiece> weights_of_glm4_moe(const DecoderConfig& config) {
  return llama_layout_weights(config, [&](WeightMap& map, std::int64_t layer) {
    add_qwen_experts(map, config, layer);
    add_other_tensors_of_glm4_moe(map, config, layer);
  });
}

std::vector<std::vector<WeightPiece>> other_weights_of_glm4_moe(const DecoderConfig& config) {
  return {llama_layout_weights(config, [&](WeightMap& map, std::int64_t layer) {
    add_stacked_qwen_experts(map, config, layer);
    add_other_tensors_of_glm4_moe(map, config, layer);
  })};
}

}  // namespace

Family glm4_moe_family() {
  return {.model_type = "glm4_moe",
          .parse = parse_glm4_moe,
          .weights = weights_of_glm4_moe,
          .write = write_glm4_moe,
          .other_weights = other_weights_of_glm4_moe};
}

}  // namespace packtrain
