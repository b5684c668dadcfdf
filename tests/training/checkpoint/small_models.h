// Small decoders for tests of adapters' files.
#pragma once

#include "models/families/family.h"

namespace packtrain::test {

inline DecoderConfig small_llama(bool tied = false) {
  DecoderConfig config = parse_decoder_config(R"({
    "model_type": "llama", "vocab_size": 33, "hidden_size": 24, "intermediate_size": 20,
    "num_hidden_layers": 2, "num_attention_heads": 6, "num_key_value_heads": 2,
    "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "tie_word_embeddings": false})");
  config.tied_embeddings = tied;
  return config;
}

// Its query_key_value has its rows in another order than our weight.
inline DecoderConfig small_falcon() {
  return parse_decoder_config(R"({
    "model_type": "falcon", "vocab_size": 33, "hidden_size": 24, "num_hidden_layers": 2,
    "num_attention_heads": 6, "num_kv_heads": 2, "new_decoder_architecture": true,
    "tie_word_embeddings": false, "ffn_hidden_size": 20})");
}

// Its second layer alone has no experts.
inline DecoderConfig small_qwen_moe() {
  return parse_decoder_config(R"({
    "model_type": "qwen3_moe", "vocab_size": 33, "hidden_size": 24, "intermediate_size": 20,
    "moe_intermediate_size": 12, "num_experts": 5, "num_experts_per_tok": 2,
    "num_hidden_layers": 3, "mlp_only_layers": [1], "num_attention_heads": 6,
    "num_key_value_heads": 2, "head_dim": 4, "max_position_embeddings": 64,
    "rms_norm_eps": 1e-5, "tie_word_embeddings": false})");
}

// Its experts' matrices are transposed, and rows of gate and up interleaved.
inline DecoderConfig small_gpt_oss() {
  return parse_decoder_config(R"({
    "model_type": "gpt_oss", "vocab_size": 33, "hidden_size": 24, "intermediate_size": 12,
    "num_local_experts": 3, "num_experts_per_tok": 2, "num_hidden_layers": 2,
    "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 4,
    "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "tie_word_embeddings": false,
    "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}})");
}

}  // namespace packtrain::test
