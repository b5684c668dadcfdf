#include "models/families/exaone_moe.h"

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/families/exaone4.h"
#include "models/families/llama_layout.h"
#include "models/families/sigmoid_experts.h"

namespace packtrain {
namespace {

constexpr const char* kLayerKinds = "mlp_layer_types";
constexpr SigmoidExpertsNames kExpertNames = {.num_experts = "num_experts",
                                              .num_shared = "num_shared_experts",
                                              .choice_bias = "e_score_correction_bias"};

// A list of "dense" and "sparse" counts before first_k_dense_replace.
void read_layer_kinds(ConfigReader& reader, DecoderConfig& config) {
  if (!reader.has(kLayerKinds)) return read_first_dense_layers(reader, config, 1);
  reader.ignore({"first_k_dense_replace"});
  const std::vector<std::string> kinds = reader.texts(kLayerKinds);
  if (std::ssize(kinds) != config.num_layers) {
    reader.fail(kLayerKinds, "has " + std::to_string(kinds.size()) +
                                 " values, want one for each of the " +
                                 std::to_string(config.num_layers) + " layers");
  }
  for (const std::string& kind : kinds) {
    if (kind != "dense" && kind != "sparse") {
      reader.fail(kLayerKinds, "has '" + kind + "', want 'dense' or 'sparse'");
    }
  }
  set_expert_layers(config, [&](std::int64_t layer) { return kinds.at(layer) == "sparse"; });
}

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
  read_layer_kinds(reader, config);
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
  json[kLayerKinds] = nlohmann::json::array();
  for (std::int64_t layer = 0; layer < config.num_layers; ++layer) {
    json[kLayerKinds].push_back(config.layer(layer).experts ? "sparse" : "dense");
  }
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
