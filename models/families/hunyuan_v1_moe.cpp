#include "models/families/hunyuan_v1_moe.h"

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/families/expert_layout.h"
#include "models/families/hunyuan_v1_dense.h"
#include "models/families/llama_layout.h"

namespace packtrain {
namespace {

// The number at `key`, or that of a list with equal numbers for each layer.
std::int64_t read_of_all_layers(const nlohmann::json& json, ConfigReader& reader, const char* key,
                                std::int64_t fallback) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_array()) return reader.integer(key, fallback);
  const std::vector<std::int64_t> numbers = reader.counts(key);
  for (const std::int64_t number : numbers) {
    if (number == numbers.front()) continue;
    reader.fail(key, "is " + found->dump() + ", want the same number for each layer");
  }
  if (numbers.empty() || numbers.front() == 0) {
    reader.fail(key, "is " + found->dump() + ", want numbers from 1 on");
  }
  return numbers.front();
}

void read_experts_of_hunyuan(const nlohmann::json& json, ConfigReader& reader,
                             DecoderConfig& config) {
  ExpertsConfig& experts = config.experts;
  experts.normalize_weights = true;
  experts.num_experts = reader.integer("num_experts", 1);
  experts.experts_per_token = read_of_all_layers(json, reader, "moe_topk", 1);
  if (experts.experts_per_token > experts.num_experts) {
    reader.fail("moe_topk", "is above the " + std::to_string(experts.num_experts) + " experts");
  }
  experts.intermediate_size = config.intermediate_size;
  experts.shared_intermediate_size = config.intermediate_size;
  set_expert_layers(config, [](std::int64_t) { return true; });
  // transformers reads none of these. The models' own code does.
  const std::int64_t inner = config.intermediate_size;
  if (read_of_all_layers(json, reader, "moe_intermediate_size", inner) != inner) {
    reader.reject("moe_intermediate_size", "is not intermediate_size, which transformers reads");
  }
  if (read_of_all_layers(json, reader, "num_shared_expert", 1) != 1) {
    reader.reject("num_shared_expert", "is not 1, the only number that transformers computes");
  }
  reader.require("use_mixed_mlp_moe", true);
  reader.require("norm_topk_prob", true);
  reader.require("use_mla", false);
  reader.ignore({"moe_drop_tokens", "moe_random_routing_dropped_token"});  // of their training
}

DecoderConfig parse_hunyuan_v1_moe(const nlohmann::json& json) {
  ConfigReader reader(json);
  DecoderConfig config;
  config.family = "hunyuan_v1_moe";
  read_hunyuan_layout(reader, config);
  read_experts_of_hunyuan(json, reader, config);
  reader.finish(other_names(config));
  return config;
}

nlohmann::json write_hunyuan_v1_moe(const DecoderConfig& config) {
  nlohmann::json json = write_hunyuan_layout(config);
  json["architectures"] = {"HunYuanMoEV1ForCausalLM"};
  json["model_type"] = "hunyuan_v1_moe";
  json["num_experts"] = config.experts.num_experts;
  json["moe_topk"] = config.experts.experts_per_token;
  // For programs that go by them, as published models have them.
  json["moe_intermediate_size"] = config.experts.intermediate_size;
  json["num_shared_expert"] = 1;
  json["use_mixed_mlp_moe"] = true;
  return json;
}

constexpr const char* kRouterOfHunyuan = "mlp.gate.wg";
constexpr const char* kSharedOfHunyuan = "mlp.shared_mlp";

std::vector<WeightPiece> weights_of_hunyuan_v1_moe(const DecoderConfig& config) {
  return llama_layout_weights(config, [&](WeightMap& map, std::int64_t layer) {
    add_experts_apart(map, config, layer,
                      {.router = kRouterOfHunyuan,
                       .experts = "mlp.experts",
                       .gate = "gate_proj",
                       .up = "up_proj",
                       .down = "down_proj"});
    add_shared_expert(map, config, layer, kSharedOfHunyuan);
  });
}

std::vector<std::vector<WeightPiece>> other_weights_of_hunyuan_v1_moe(const DecoderConfig& config) {
  return {llama_layout_weights(config, [&](WeightMap& map, std::int64_t layer) {
    add_experts_stacked(map, config, layer,
                        {kRouterOfHunyuan, "mlp.experts.gate_up_proj", "mlp.experts.down_proj"});
    add_shared_expert(map, config, layer, kSharedOfHunyuan);
  })};
}

}  // namespace

Family hunyuan_v1_moe_family() {
  return {.model_type = "hunyuan_v1_moe",
          .parse = parse_hunyuan_v1_moe,
          .weights = weights_of_hunyuan_v1_moe,
          .write = write_hunyuan_v1_moe,
          .other_weights = other_weights_of_hunyuan_v1_moe};
}

}  // namespace packtrain
