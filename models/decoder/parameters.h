// Parameters of each block of a decoder: names, shapes, initial values, in the block's order.
#pragma once

#include <cstdint>
#include <vector>

#include "models/block/block.h"
#include "models/layers/decoder_config.h"

namespace packtrain {

// H hidden, D head_dim, I intermediate, V vocabulary; weights are [out, in].
// embed [V, H], and with learned positions positions [max_positions, H]. A model
// with inputs of layers also has those of layer_inputs.h.
std::vector<ParameterSpec> embedding_parameters(const DecoderConfig& config);
// Those that the layer's operators declare (layer_operators.h). A layer has those of the following
// that its config has. Each bias follows its weight:
//    attention_norm [H], attention.qkv [(heads + 2 kv) D, H], attention.output [H, heads D],
//    attention_post_norm [H], mlp_norm [H], mlp.gate_up [2 I, H] (not gated: mlp.up [I, H]),
//    mlp.down [H, I], mlp_post_norm [H]
// A layer with a gated delta rule has these instead of those of attention. It has G heads of K
// keys and M heads of V values. Other names are in recorded_delta_net.h:
//    delta_net.qkvz [2 G K + 2 M V, H], delta_net.ba [2 M, H], delta_net.output [H, M V]
// One with a short convolution of width W has:
//    short_conv.bcx [3 H, H], short_conv.conv [H, W], short_conv.output [H, H]
// One with Mamba-2's state space model has these. It has M heads of P, and G groups of a state of
// N; other names are in recorded_mamba2.h:
//    mamba2.zxbcdt [2 M P + 2 G N + M, H], mamba2.output [H, M P]
// Where values are the keys, qkv has kv D fewer rows. Where keys are those of another layer it has
// heads D. With inputs of P elements a layer also has:
//    layer_input.gate [P, H], layer_input.output [H, P], layer_input_post_norm [H]
// A constant factor of the output is layer_scale [1].
// A gate of attention's output adds heads D rows before those of qkv.
// A layer with E experts of width J, and a shared one of width S, has these instead of the MLP:
//    mlp.router [E, H], mlp.router.choice_bias [E], mlp.experts.gate_up [E, 2 J, H],
//    mlp.experts.down [E, H, J], mlp.shared.gate_up [2 S, H], mlp.shared.down [H, S],
//    mlp.shared_gate [1, H]
// With experts next to the MLP it has both, and these:
//    mlp.router_norm [H], mlp.router.expert_scale [E], and mlp.dense_post_norm [H],
//    mlp.experts_norm [H] and mlp.experts_post_norm [H]
// xIELU has the numbers mlp.xielu.{alpha_p, alpha_n, beta, eps} [1].
// A weight with a low-rank update is followed by its matrices (recorded_operators.h).
std::vector<ParameterSpec> layer_parameters(const DecoderConfig& config, std::int64_t layer);
// final_norm [H], head [V, H] and its bias; with tied embeddings head is the embedding itself.
std::vector<ParameterSpec> head_parameters(const DecoderConfig& config);

// Those of all blocks, each name once.
std::vector<ParameterSpec> all_parameters(const DecoderConfig& config);

}  // namespace packtrain
