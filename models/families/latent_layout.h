// Multi-head latent attention (DeepSeek-AI, arXiv 2405.04434, 2.1) in families with Llama's layout:
// keys of config.json and names of weights.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>

#include "models/families/config_reader.h"
#include "models/families/llama_layout.h"
#include "models/families/weight_map.h"

namespace packtrain {

// Values of a family for keys that its config does not set.
struct LatentDefaults {
  std::int64_t query_rank = 1536;
  std::int64_t key_value_rank = 512;
  std::int64_t rotary_dim = 64;
  std::int64_t unturned_dim = 128;
  std::int64_t value_dim = 128;
};

// Reads what read_llama_layout reads, and the sizes of attention: q_lora_rank (null: queries are
// projections of whole rows), kv_lora_rank, qk_nope_head_dim, qk_rope_head_dim, v_head_dim and
// attention_bias. Sets the factor of scores, which YaRN's mscale_all_dim changes. Refuses values
// wider than queries, and fewer heads of keys than of queries.
void read_latent_layout(ConfigReader& reader, DecoderConfig& config, LlamaLayout layout,
                        const LatentDefaults& defaults);
// Inverse of read_latent_layout.
nlohmann::json write_latent_layout(const DecoderConfig& config);

// The weights self_attn.* of a layer.
void add_latent_attention(WeightMap& map, const DecoderConfig& config, std::int64_t layer);

}  // namespace packtrain
