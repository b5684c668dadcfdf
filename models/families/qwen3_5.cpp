#include "models/families/qwen3_5.h"

#include <nlohmann/json.hpp>

#include "models/families/delta_net_layout.h"
#include "models/families/expert_layout.h"
#include "models/families/llama_layout.h"
#include "models/families/qwen3_next.h"
#include "models/families/qwen_experts.h"

namespace packtrain {
namespace {

constexpr std::int64_t kExpertsOfQwen35 = 256;
constexpr std::int64_t kTokenExpertsOfQwen35 = 8;
constexpr const char* kDenseQwen35 = "qwen3_5_text";
constexpr const char* kMoeQwen35 = "qwen3_5_moe_text";

// Keys of published configs that transformers does not read.
void read_published_keys(ConfigReader& reader) {
  reader.require("attn_output_gate", true);
  reader.ignore({"mamba_ssm_dtype", "mtp_num_hidden_layers", "mtp_use_dedicated_embeddings"});
}

DecoderConfig parse_qwen3_5(const nlohmann::json& json) {
  ConfigReader reader(json);
  DecoderConfig config;
  config.family = kDenseQwen35;
  read_qwen3_next_layout(reader, config);
  read_published_keys(reader);
  reader.finish(other_names(config));
  return config;
}

DecoderConfig parse_qwen3_5_moe(const nlohmann::json& json) {
  ConfigReader reader(json);
  DecoderConfig config;
  config.family = kMoeQwen35;
  read_qwen3_next_layout(reader, config, /*has_dense_layers=*/false);
  read_published_keys(reader);
  set_expert_layers(config, [](std::int64_t) { return true; });
  config.experts.normalize_weights = true;
  read_auxiliary_loss(reader, config);
  read_gated_experts(reader, config, {kExpertsOfQwen35, kTokenExpertsOfQwen35});
  reader.ignore({"intermediate_size"});  // no layer is dense
  reader.finish(other_names(config));
  return config;
}

nlohmann::json write_qwen3_5(const DecoderConfig& config) {
  nlohmann::json json = write_llama_layout(config);
  json["architectures"] = {"Qwen3_5ForCausalLM"};
  json["model_type"] = kDenseQwen35;
  write_qwen3_next_layout(config, json);
  return json;
}

nlohmann::json write_qwen3_5_moe(const DecoderConfig& config) {
  nlohmann::json json = write_llama_layout(config);
  json["architectures"] = {"Qwen3_5MoeForCausalLM"};
  json["model_type"] = kMoeQwen35;
  json.erase("intermediate_size");
  write_qwen3_next_layout(config, json);
  write_gated_experts(config, json);
  write_auxiliary_loss(config, json);
  return json;
}

std::vector<WeightPiece> map_qwen3_5(const DecoderConfig& config, bool stacked) {
  const auto experts = [&](WeightMap& map, std::int64_t layer) {
    stacked ? add_stacked_qwen_experts(map, config, layer) : add_qwen_experts(map, config, layer);
    add_gated_qwen_expert(map, config, layer);
  };
  const auto mixer = [&](WeightMap& map, std::int64_t layer) {
    add_delta_net(map, config, layer,
                  {{"in_proj_qkv", "in_proj_z"}, "in_proj_b", "in_proj_a", "norm", "out_proj"});
  };
  return llama_layout_weights(config, AddLayerParts{.experts = experts, .mixer = mixer});
}

std::vector<WeightPiece> weights_of_qwen3_5(const DecoderConfig& config) {
  return map_qwen3_5(config, /*stacked=*/false);
}

std::vector<std::vector<WeightPiece>> other_weights_of_qwen3_5_moe(const DecoderConfig& config) {
  return {map_qwen3_5(config, /*stacked=*/true)};
}

}  // namespace

Family qwen3_5_family() {
  return {.model_type = kDenseQwen35,
          .parse = parse_qwen3_5,
          .weights = weights_of_qwen3_5,
          .write = write_qwen3_5,
          .prediction_prefix = "mtp."};
}

Family qwen3_5_moe_family() {
  return {.model_type = kMoeQwen35,
          .parse = parse_qwen3_5_moe,
          .weights = weights_of_qwen3_5,
          .write = write_qwen3_5_moe,
          .other_weights = other_weights_of_qwen3_5_moe,
          .prediction_prefix = "mtp."};
}

}  // namespace packtrain
