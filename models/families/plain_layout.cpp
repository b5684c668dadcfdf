#include "models/families/plain_layout.h"

#include <string>

namespace packtrain {
namespace {

void add_layer_of_plain_layout(WeightMap& map, const DecoderConfig& config,
                               const PlainLayout& layout, std::int64_t layer) {
  const std::string ours = "layers." + std::to_string(layer) + ".";
  const std::string hf = "model." + ours;
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t q = config.num_heads * config.head_dim;
  const std::int64_t kv = config.num_kv_heads * config.head_dim;
  const bool norm_bias = config.norm.has_bias;
  map.norm(ours + "attention_norm", hf + "input_layernorm", hidden, norm_bias);
  map.linear(ours + "attention.qkv", hf + "self_attn.q_proj", q, hidden, config.qkv_bias);
  map.linear(ours + "attention.qkv", hf + "self_attn.k_proj", kv, hidden, config.qkv_bias);
  map.linear(ours + "attention.qkv", hf + "self_attn.v_proj", kv, hidden, config.qkv_bias);
  map.linear(ours + "attention.output", hf + layout.attention_output, hidden, q,
             config.attention_output_bias);
  if (!config.has_shared_norm()) {
    map.norm(ours + "mlp_norm", hf + "post_attention_layernorm", hidden, norm_bias);
  }
  map.linear(ours + "mlp.up", hf + layout.up, config.intermediate_size, hidden, config.mlp_bias);
  map.linear(ours + "mlp.down", hf + layout.down, hidden, config.intermediate_size,
             config.mlp_bias);
}

}  // namespace

std::vector<WeightPiece> plain_layout_weights(const DecoderConfig& config,
                                              const PlainLayout& layout) {
  const std::int64_t hidden = config.hidden_size;
  WeightMap map;
  map.linear("embed", "model.embed_tokens", config.vocab_size, hidden, false);
  for (std::int64_t layer = 0; layer < config.num_layers; ++layer) {
    add_layer_of_plain_layout(map, config, layout, layer);
  }
  map.norm("final_norm", std::string("model.") + layout.final_norm, hidden, config.norm.has_bias);
  if (!config.tied_embeddings) {
    map.whole("head.weight", "lm_head.weight", {config.vocab_size, hidden});
  }
  if (config.head_bias) map.whole("head.bias", "lm_head.bias", {config.vocab_size});
  return map.take();
}

}  // namespace packtrain
