#include "models/families/latent_layout.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

namespace packtrain {
namespace {

void read_latent_sizes(ConfigReader& reader, DecoderConfig& config,
                       const LatentDefaults& defaults) {
  LatentAttentionConfig& latent = config.latent;
  latent.query_rank = reader.integer_or_none("q_lora_rank", defaults.query_rank);
  latent.key_value_rank = reader.integer("kv_lora_rank", defaults.key_value_rank);
  latent.value_head_dim = reader.integer("v_head_dim", defaults.value_dim);
  config.rotary_dim = reader.integer("qk_rope_head_dim", defaults.rotary_dim);
  config.head_dim = config.rotary_dim + reader.integer("qk_nope_head_dim", defaults.unturned_dim);
  if (config.rotary_dim % 2 != 0) {
    reader.fail("qk_rope_head_dim", "is " + std::to_string(config.rotary_dim) +
                                        ", want an even number (rotary positions turn pairs)");
  }
  if (config.head_dim % 2 != 0) {
    reader.fail("qk_nope_head_dim", "makes heads of " + std::to_string(config.head_dim) +
                                        " elements, want an even number");
  }
  if (latent.value_head_dim > config.head_dim) {
    reader.fail("v_head_dim", "is " + std::to_string(latent.value_head_dim) +
                                  ", want at most the " + std::to_string(config.head_dim) +
                                  " elements of queries (qk_nope_head_dim + qk_rope_head_dim)");
  }
}

// The factor of scores (YaRN, arXiv 2309.00071, 3.4, with the factor that DeepSeek-V2 chose).
double latent_scale(const DecoderConfig& config) {
  const RotaryScaling& scaling = config.rotary.scaling;
  const double mscale = config.latent.mscale_all_dim;
  if (mscale == 0 || scaling.factor <= 1) return 0;
  const double factor = 0.1 * mscale * std::log(scaling.factor) + 1.0;
  return factor * factor / std::sqrt(static_cast<double>(config.head_dim));
}

}  // namespace

void read_latent_layout(ConfigReader& reader, DecoderConfig& config, LlamaLayout layout,
                        const LatentDefaults& defaults) {
  read_latent_sizes(reader, config, defaults);
  layout.has_head_dim = false;
  layout.rotary.scores_mscale = true;
  read_llama_layout(reader, config, layout);
  if (config.num_kv_heads != config.num_heads) {
    reader.fail("num_key_value_heads", "is " + std::to_string(config.num_kv_heads) + ", want the " +
                                           std::to_string(config.num_heads) + " attention heads");
  }
  config.qkv_bias = config.attention_output_bias = reader.boolean("attention_bias", false);
  config.attention_scale = latent_scale(config);
  reader.require("partial_rotary_factor", 1.0);
  reader.require("qk_head_dim", config.head_dim);
  reader.require("head_dim", config.rotary_dim);  // as transformers sets it
}

nlohmann::json write_latent_layout(const DecoderConfig& config) {
  const LatentAttentionConfig& latent = config.latent;
  nlohmann::json json = write_llama_layout(config);
  json["head_dim"] = config.rotary_dim;
  json["q_lora_rank"] =
      latent.query_rank > 0 ? nlohmann::json(latent.query_rank) : nlohmann::json(nullptr);
  json["kv_lora_rank"] = latent.key_value_rank;
  json["qk_rope_head_dim"] = config.rotary_dim;
  json["qk_nope_head_dim"] = config.head_dim - config.rotary_dim;
  json["v_head_dim"] = latent.value_head_dim;
  json["attention_bias"] = config.qkv_bias;
  return json;
}

void add_latent_attention(WeightMap& map, const DecoderConfig& config, std::int64_t layer) {
  const LatentAttentionConfig& latent = config.latent;
  const std::string name = "layers." + std::to_string(layer) + ".";
  const std::string ours = name + "attention.";
  const std::string theirs = "model." + name + "self_attn.";
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t heads = config.num_heads;
  const std::int64_t query = heads * config.head_dim;
  const std::int64_t unturned = config.head_dim - config.rotary_dim;
  if (latent.query_rank > 0) {
    map.linear(ours + "query_a", theirs + "q_a_proj", latent.query_rank, hidden, config.qkv_bias);
    map.norm(ours + "query_a_norm", theirs + "q_a_layernorm", latent.query_rank);
    map.linear(ours + "query_b", theirs + "q_b_proj", query, latent.query_rank, false);
  } else {
    map.linear(ours + "query", theirs + "q_proj", query, hidden, false);
  }
  map.linear(ours + "key_value_a", theirs + "kv_a_proj_with_mqa",
             latent.key_value_rank + config.rotary_dim, hidden, config.qkv_bias);
  map.norm(ours + "key_value_a_norm", theirs + "kv_a_layernorm", latent.key_value_rank);
  map.linear(ours + "key_value_b", theirs + "kv_b_proj", heads * (unturned + latent.value_head_dim),
             latent.key_value_rank, false);
  map.linear(ours + "output", theirs + "o_proj", hidden, heads * latent.value_head_dim,
             config.attention_output_bias);
}

}  // namespace packtrain
