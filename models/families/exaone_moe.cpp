#include "models/families/exaone_moe.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "models/families/exaone4.h"
#include "models/families/llama_layout.h"
#include "models/families/sigmoid_experts.h"

namespace packtrain {
namespace {

constexpr SigmoidExpertsNames kExpertNames = {.num_experts = "num_experts",
                                              .num_shared = "num_shared_experts",
                                              .choice_bias = "e_score_correction_bias"};

// A list of all layers, true for those with experts.
nlohmann::json expert_flags(const DecoderConfig& config) {
  nlohmann::json flags = nlohmann::json::array();
  for (std::int64_t layer = 0; layer < config.num_layers; ++layer) {
    flags.push_back(config.layer(layer).experts);
  }
  return flags;
}

DecoderConfig parse_exaone_moe(const nlohmann::json& json) {
  ConfigReader reader(json);
  DecoderConfig config;
  config.family = "exaone_moe";
  reader.integer("num_key_value_heads");
  read_llama_layout(reader, config, {.epsilon = 1e-5});
  config.qk_norm = QkNormKind::kHead;
  read_sigmoid_experts(reader, config,
                       {.num_experts = 64,
                        .intermediate_size = 1024,
                        .weight_multiplier = 2.5,
                        .names = kExpertNames});
  read_mlp_layer_types(reader, config, reader.count("first_k_dense_replace", 1));
  reader.require("is_moe_layer", expert_flags(config));  // other programs read it
  read_exaone_windows(reader, config);
  reader.finish(other_names(config));
  return config;
}

nlohmann::json write_exaone_moe(const DecoderConfig& config) {
  nlohmann::json json = write_llama_layout(config);
  json["architectures"] = {"ExaoneMoeForCausalLM"};
  json["model_type"] = "exaone_moe";
  write_sigmoid_experts(config, json, kExpertNames);
  write_mlp_layer_types(config, json);
  write_exaone_windows(config, json);
  json["pad_token_id"] = nullptr;  // the family's default is a token of the vocabulary
  return json;
}

std::vector<WeightPiece> weights_of_exaone_moe(const DecoderConfig& config) {
  return llama_layout_weights(config, [&](WeightMap& map, std::int64_t layer) {
    add_sigmoid_experts(map, config, layer, kExpertNames);
  });
}

}  // namespace

Family exaone_moe_family() {
  return {.model_type = "exaone_moe",
          .parse = parse_exaone_moe,
          .weights = weights_of_exaone_moe,
          .write = write_exaone_moe,
          .other_weights = stacked_sigmoid_expert_weights};
}

}  // namespace packtrain
