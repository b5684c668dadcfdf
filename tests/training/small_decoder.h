// The shape that tests of memory plan for.
#pragma once

#include "models/layers/decoder_config.h"

namespace packtrain {

inline DecoderConfig small_decoder(bool tied = false) {
  DecoderConfig config;
  config.family = "llama";
  config.vocab_size = 512;
  config.hidden_size = 64;
  config.intermediate_size = 160;
  config.num_layers = 4;
  config.num_heads = 4;
  config.num_kv_heads = 2;
  config.head_dim = 16;
  config.max_positions = 512;
  config.tied_embeddings = tied;
  return config;
}

}  // namespace packtrain
