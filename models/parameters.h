// The parameters of each block of a decoder: names, shapes, initial values.
#pragma once

#include <cstdint>
#include <vector>

#include "models/block.h"
#include "models/decoder_config.h"

namespace packtrain {

// H hidden, D head_dim, I intermediate, V vocabulary; weights are [out, in].
std::vector<ParameterSpec> embedding_parameters(const DecoderConfig& config);  // embed [V, H]
// attention_norm [H], attention.qkv [(heads + 2 kv) D, H], attention.output [H, heads D],
// attention_post_norm [H], mlp_norm [H], mlp.gate_up [2 I, H] (not gated: mlp.up [I, H]),
// mlp.down [H, I], mlp_post_norm [H]: those that the config has; each bias follows its weight. A
// layer with E experts of width J, and a shared one of width S, has in the MLP's place mlp.router
// [E, H], mlp.experts.gate_up [E, 2 J, H], mlp.experts.down [E, H, J], mlp.shared.gate_up [2 S, H],
// mlp.shared.down [H, S], mlp.shared_gate [1, H].
std::vector<ParameterSpec> layer_parameters(const DecoderConfig& config, std::int64_t layer);
// final_norm [H], head [V, H] and its bias; with tied embeddings head is the embedding itself.
std::vector<ParameterSpec> head_parameters(const DecoderConfig& config);

}  // namespace packtrain
