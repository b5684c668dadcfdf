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

}  // namespace packtrain::test
