#include "models/families/deepseek_v2.h"

#include <nlohmann/json.hpp>
#include <string>

#include "models/families/latent_layout.h"
#include "models/families/qwen_experts.h"
#include "models/families/sigmoid_experts.h"

namespace packtrain {
namespace {

constexpr const char* kInGroups = "group_limited_greedy";

void read_experts_of_deepseek_v2(ConfigReader& reader, DecoderConfig& config) {
  ExpertsConfig& experts = config.experts;
  experts.num_experts = reader.integer("n_routed_experts", 64);
  experts.intermediate_size = reader.integer("moe_intermediate_size", 1407);
  experts.shared_intermediate_size =
      reader.integer("n_shared_experts", 2) * experts.intermediate_size;
  experts.weight_multiplier = reader.number("routed_scaling_factor", 1.0);
  reader.integer("num_experts_per_tok");  // transformers has no fallback
  read_experts_per_token(reader, config, 0);
  const std::string method = reader.text("topk_method", "greedy");
  if (method == kInGroups) {
    read_expert_groups(reader, experts, {}, /*least=*/1);
  } else if (method != "greedy") {
    reader.reject("topk_method", "is \"" + method + "\", want greedy or " + std::string(kInGroups));
  }
  reader.ignore({"n_group", "topk_group"});  // greedy does not read them
  reader.require("norm_topk_prob", false);   // transformers does not read it
  reader.require("scoring_func", "softmax");
  reader.require("moe_layer_freq", 1);
  // A loss that only DeepSeek's own training adds, and how experts are placed.
  reader.ignore({"aux_loss_alpha", "seq_aux", "ep_size"});
}

DecoderConfig parse_deepseek_v2(const nlohmann::json& json) {
  ConfigReader reader(json);
  DecoderConfig config;
  config.family = "deepseek_v2";
  read_latent_layout(reader, config, {}, {});
  config.interleaved_rotary = true;
  reader.require("mlp_bias", false);
  read_experts_of_deepseek_v2(reader, config);
  read_first_dense_layers(reader, config, 0);
  reader.finish(other_names(config));
  return config;
}

nlohmann::json write_deepseek_v2(const DecoderConfig& config) {
  nlohmann::json json = write_latent_layout(config);
  json["architectures"] = {"DeepseekV2ForCausalLM"};
  json["model_type"] = "deepseek_v2";
  write_sigmoid_experts(config, json);
  json.erase("num_nextn_predict_layers");
  json["topk_method"] = config.experts.num_groups > 1 ? kInGroups : "greedy";
  json["scoring_func"] = "softmax";
  json["moe_layer_freq"] = 1;
  return json;
}

void add_deepseek_v2_shared(WeightMap& map, const DecoderConfig& config, std::int64_t layer) {
  add_shared_expert(map, config, layer, "mlp.shared_experts");
}

std::vector<WeightPiece> weights_of_deepseek_v2(const DecoderConfig& config) {
  return llama_layout_weights(config, [&](WeightMap& map, std::int64_t layer) {
    add_qwen_experts(map, config, layer);
    add_deepseek_v2_shared(map, config, layer);
  });
}

std::vector<std::vector<WeightPiece>> other_weights_of_deepseek_v2(const DecoderConfig& config) {
  return {llama_layout_weights(config, [&](WeightMap& map, std::int64_t layer) {
    add_stacked_qwen_experts(map, config, layer);
    add_deepseek_v2_shared(map, config, layer);
  })};
}

}  // namespace

Family deepseek_v2_family() {
  return {.model_type = "deepseek_v2",
          .parse = parse_deepseek_v2,
          .weights = weights_of_deepseek_v2,
          .write = write_deepseek_v2,
          .other_weights = other_weights_of_deepseek_v2};
}

}  // namespace packtrain
