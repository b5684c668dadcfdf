#include "models/families/minimax_m2.h"

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/families/expert_layout.h"
#include "models/families/llama_layout.h"
#include "models/families/mixtral.h"

namespace packtrain {
namespace {

constexpr const char* kRotaryDim = "rotary_dim";

// Published configs have the number of turned dimensions, others the factor. transformers 5.17
// reads the factor alone. It would turn whole heads of published models.
void read_turned_part(ConfigReader& reader, DecoderConfig& config) {
  if (!reader.has(kRotaryDim)) return;
  const std::int64_t turned = reader.integer(kRotaryDim, config.head_dim);
  const std::int64_t by_factor = config.resolved_rotary_dim();
  if (by_factor != config.head_dim && by_factor != turned) {
    reader.fail(kRotaryDim, "is " + std::to_string(turned) + ", but partial_rotary_factor turns " +
                                std::to_string(by_factor) + " dimensions of a head");
  }
  if (turned % 2 != 0 || turned > config.head_dim) {
    reader.fail(kRotaryDim, "is " + std::to_string(turned) + ", want an even number up to the " +
                                std::to_string(config.head_dim) + " dimensions of a head");
  }
  config.rotary_dim = turned;
}

void read_experts_of_minimax(ConfigReader& reader, DecoderConfig& config) {
  ExpertsConfig& experts = config.experts;
  experts.router = RouterKind::kSigmoid;
  experts.choice_bias = true;
  experts.num_experts = reader.integer("num_local_experts", 256);
  experts.intermediate_size = config.intermediate_size;
  experts.normalize_weights = true;
  read_experts_per_token(reader, config, 8);
  set_expert_layers(config, [](std::int64_t) { return true; });
  // Its loss would take the softmax of scores that are chosen by sigmoids.
  reader.require("output_router_logits", false);
  reader.ignore({"router_aux_loss_coef"});
  reader.require("router_jitter_noise", 0);
  reader.require("scoring_func", "sigmoid");
  reader.require("use_routing_bias", true);
  reader.require("shared_intermediate_size", 0);
}

DecoderConfig parse_minimax_m2(const nlohmann::json& json) {
  ConfigReader reader(json);
  DecoderConfig config;
  config.family = "minimax_m2";
  reader.integer("num_key_value_heads");
  read_llama_layout(
      reader, config,
      {.head_dim = 128, .max_positions = 196608, .rotary = {.base = 5e6, .partial_factor = 1.0}});
  read_turned_part(reader, config);
  config.qk_norm = QkNormKind::kFull;
  reader.require("use_qk_norm", true);
  reader.require("qk_norm_type", "per_layer");
  read_experts_of_minimax(reader, config);
  for (const std::int64_t type : reader.counts("attn_type_list")) {
    if (type != 1)
      reader.fail("attn_type_list", "has another value than 1 (attention to all tokens)");
  }
  reader.ignore({"mtp_transformer_layers", "num_mtp_modules", "use_mtp"});
  reader.finish(other_names(config));
  return config;
}

nlohmann::json write_minimax_m2(const DecoderConfig& config) {
  nlohmann::json json = write_llama_layout(config);
  json["architectures"] = {"MiniMaxM2ForCausalLM"};
  json["model_type"] = "minimax_m2";
  json["num_local_experts"] = config.experts.num_experts;
  json["num_experts_per_tok"] = config.experts.experts_per_token;
  json[kRotaryDim] = config.resolved_rotary_dim();
  json["rope_parameters"]["partial_rotary_factor"] = partial_rotary_factor(config);
  json["scoring_func"] = "sigmoid";
  json["use_qk_norm"] = true;
  json["use_routing_bias"] = true;
  return json;
}

void add_bias_of_minimax(WeightMap& map, const DecoderConfig& config, std::int64_t layer,
                         const std::string& mlp) {
  const std::string name = "layers." + std::to_string(layer) + ".";
  map.constant(name + "mlp.router.choice_bias", "model." + name + mlp + ".e_score_correction_bias",
               {config.experts.num_experts});
}

std::vector<WeightPiece> weights_of_minimax_m2(const DecoderConfig& config) {
  return llama_layout_weights(config, [&](WeightMap& map, std::int64_t layer) {
    add_mixtral_experts(map, config, layer);
    add_bias_of_minimax(map, config, layer, "block_sparse_moe");
  });
}

std::vector<std::vector<WeightPiece>> other_weights_of_minimax_m2(const DecoderConfig& config) {
  return {llama_layout_weights(config, [&](WeightMap& map, std::int64_t layer) {
    add_stacked_mixtral_experts(map, config, layer);
    add_bias_of_minimax(map, config, layer, "mlp");
  })};
}

}  // namespace

Family minimax_m2_family() {
  return {.model_type = "minimax_m2",
          .parse = parse_minimax_m2,
          .weights = weights_of_minimax_m2,
          .write = write_minimax_m2,
          .other_weights = other_weights_of_minimax_m2};
}

}  // namespace packtrain
