#include "models/families/hunyuan_v1_dense.h"

#include <nlohmann/json.hpp>

#include "models/families/llama_layout.h"

namespace packtrain {
namespace {

DecoderConfig parse_hunyuan_v1_dense(const nlohmann::json& json) {
  ConfigReader reader(json);
  DecoderConfig config;
  config.family = "hunyuan_v1_dense";
  read_hunyuan_layout(reader, config);
  reader.require("num_experts", 1);
  reader.finish(other_names(config));
  return config;
}

nlohmann::json write_hunyuan_v1_dense(const DecoderConfig& config) {
  nlohmann::json json = write_hunyuan_layout(config);
  json["architectures"] = {"HunYuanDenseV1ForCausalLM"};
  json["model_type"] = "hunyuan_v1_dense";
  return json;
}

}  // namespace

void read_hunyuan_layout(ConfigReader& reader, DecoderConfig& config) {
  read_llama_layout(reader, config, {.epsilon = 1e-5, .rotary = {.dynamic_alpha = true}});
  config.qk_norm = QkNormKind::kTurnedHead;
  config.qkv_bias = reader.boolean("attention_bias", false);
  config.attention_output_bias = config.qkv_bias;
  // The models' own code reads these.
  reader.require("use_qk_norm", true);
  reader.require("use_rotary_pos_emb", true);
  reader.require("use_cla", false);
  reader.require("norm_type", "rms");
  reader.require("attention_head_dim", config.head_dim);
  reader.ignore({"cla_share_factor", "dense_list", "class_num", "pool_type", "org_vocab_size",
                 "add_classification_head", "mask_init_id"});
}

nlohmann::json write_hunyuan_layout(const DecoderConfig& config) {
  nlohmann::json json = write_llama_layout(config);
  json["attention_bias"] = config.qkv_bias;
  json["pad_token_id"] = nullptr;  // the families' default is a token of the vocabulary
  return json;
}

Family hunyuan_v1_dense_family() {
  return {"hunyuan_v1_dense", parse_hunyuan_v1_dense, llama_layout_weights, write_hunyuan_v1_dense};
}

}  // namespace packtrain
