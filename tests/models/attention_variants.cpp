#include "tests/models/batches.h"
#include "tests/models/variants.h"

namespace packtrain {
namespace {

using Kind = RotaryScaling::Kind;

DecoderConfig without_biases() {
  DecoderConfig config = small_config();
  config.qkv_bias = config.attention_output_bias = config.mlp_bias = false;
  return config;
}

RotaryScaling scaled(Kind kind, double factor, std::int64_t original_max_positions,
                     double attention_factor = 1.0) {
  RotaryScaling scaling;
  scaling.kind = kind;
  scaling.factor = factor;
  scaling.original_max_positions = original_max_positions;
  scaling.attention_factor = attention_factor;
  return scaling;
}

DecoderConfig capped_and_windowed() {
  DecoderConfig config = without_biases();
  config.attention_soft_cap = 0.7;
  config.attention_scale = 0.5;
  config.layers = {{.attention = {.window = 3}}, {}};
  return config;
}

// Each head's norm around 1; layers that turn apart.
DecoderConfig head_norms() {
  DecoderConfig config = without_biases();
  config.qk_norm = QkNormKind::kHead;
  config.norm.weight_offset = 1;
  config.norm_after = true;
  config.layers = {{.attention = {.window = 6}, .local_rotary = true}, {}};
  config.local_rotary.base = 50.0;
  config.rotary.scaling = scaled(Kind::kLinear, 4.0, 0);
  return config;
}

DecoderConfig full_norms() {
  DecoderConfig config = without_biases();
  config.qk_norm = QkNormKind::kFull;
  config.norm_before = false;
  config.norm_after = true;
  config.rotary.scaling = scaled(Kind::kYarn, 4.0, 16, 1.2);
  return config;
}

DecoderConfig head_layer_norms() {
  DecoderConfig config = small_config();
  config.qk_norm = QkNormKind::kHeadLayer;
  config.norm = {.kind = NormKind::kLayer, .epsilon = 1e-5, .has_bias = true};
  config.residual = ResidualKind::kParallel;
  config.rotary_dim = 4;
  return config;
}

DecoderConfig clipped() {
  DecoderConfig config = small_config();
  config.clip_qkv = 0.8;
  config.rotary.scaling = scaled(Kind::kDynamic, 3.0, 8);
  return config;
}

DecoderConfig clipped_and_normed() {
  DecoderConfig config = small_config();
  config.clip_qkv = 0.8;
  config.qk_norm = QkNormKind::kHead;
  config.rotary.scaling = scaled(Kind::kLongRope, 4.0, 8, 1.1);
  config.rotary.scaling.short_factors = {1.0, 1.1, 1.2, 1.3};
  config.rotary.scaling.long_factors = {1.0, 2.0, 4.0, 8.0};
  return config;
}

DecoderConfig sinks() {
  DecoderConfig config = small_config();
  config.attention_sinks = true;
  config.layers = {{.attention = {.window = 4}}, {}};
  return config;
}

// A layer without rotary positions under a norm of heads, one that turns neighbours.
DecoderConfig partly_rotary() {
  DecoderConfig config = without_biases();
  config.qk_norm = QkNormKind::kHead;
  config.interleaved_rotary = true;
  config.rotary_dim = 4;
  config.layers = {{.attention = {.window = 5}}, {.no_rotary = true}};
  return config;
}

// Temperatures from position 4 on, in a layer with rotary positions and one without.
DecoderConfig tempered() {
  DecoderConfig config = small_config();
  config.query_temperature = {.beta = 0.3, .num_positions = 4};
  config.layers = {{.no_rotary = true}, {}};
  return config;
}

// Chunks that divide nothing, norms of turned heads without weights, temperatures where nothing
// turns, weights of the inputs of experts.
DecoderConfig chunked() {
  DecoderConfig config = without_biases();
  config.qk_norm = QkNormKind::kHeadUnit;
  config.interleaved_rotary = true;
  config.rotary.scaling = scaled(Kind::kYarn, 4.0, 16, 1.2);
  config.query_temperature = {
      .beta = 0.3, .num_positions = 3, .offset = 1, .only_without_rotary = true};
  config.layers = {{.attention = {.chunk = 5}, .experts = true}, {.no_rotary = true}};
  config.experts = {.num_experts = 5,
                    .experts_per_token = 2,
                    .intermediate_size = 24,
                    .shared_intermediate_size = 16,
                    .router = RouterKind::kSigmoid,
                    .weighted_inputs = true};
  return config;
}

// Two layers attend to keys and values of others, one of them to keys that are its values too.
// Layers have heads and MLPs of two widths.
DecoderConfig shared_keys() {
  DecoderConfig config = without_biases();
  config.qk_norm = QkNormKind::kHead;
  config.value_norm = true;
  config.attention_scale = 0.5;
  config.num_layers = 5;
  const LayerPattern window = {.attention = {.window = 6}, .local_rotary = true};
  const LayerPattern wide = {.head_dim = 16, .num_kv_heads = 1, .keys_as_values = true};
  config.layers = {window, wide, window, wide, window};
  config.layers[0].keeps_keys = config.layers[1].keeps_keys = true;
  config.layers[2].keys_of_layer = config.layers[4].keys_of_layer = 0;
  config.layers[3].keys_of_layer = 1;
  config.layers[3].keys_as_values = false;
  config.layers[3].intermediate_size = 40;
  config.rotary.scaling = scaled(Kind::kProportional, 1.5, 8);
  config.rotary.scaling.proportion = 0.5;
  return config;
}

// Inputs of each layer, a constant factor of its output, keys of another layer.
DecoderConfig layer_inputs() {
  DecoderConfig config = without_biases();
  config.qk_norm = QkNormKind::kHead;
  config.norm_after = true;
  config.embedding_multiplier = 3;
  config.activation = {ActivationKind::kGeluTanh, true};
  config.layer_input_width = 16;  // products of 8-bit floats take multiples of 16
  config.layer_scale = true;
  config.tied_embeddings = true;
  config.layers = {{.keeps_keys = true}, {.keys_of_layer = 0}};
  return config;
}

// Three copies of the hidden state, of which layers compute on the second. Cutoffs of gates, a
// branch next to attention, keys of another layer, fewer rows of inputs than of tokens.
DecoderConfig several_copies() {
  DecoderConfig config = layer_inputs();
  config.layer_scale = false;
  config.value_norm = true;
  config.layer_input_vocab = config.vocab_size - 5;
  config.altup = {.num_copies = 3, .active = 1, .coefficient_clip = 2, .laurel_rank = 16};
  config.num_layers = 3;
  const AttentionPattern window = {.window = 6};
  config.layers = {
      {.attention = window, .local_rotary = true, .gate_sparsity = 0.8, .keeps_keys = true},
      {.gate_sparsity = 0.4},
      {.attention = window, .local_rotary = true, .intermediate_size = 48, .keys_of_layer = 0}};
  return config;
}

}  // namespace

std::vector<Variant> attention_variants() {
  return {{"soft-cap, a window", capped_and_windowed()},
          {"head norms, two rotaries", head_norms()},
          {"full norms, yarn", full_norms()},
          {"head layer norms, partial rotary", head_layer_norms()},
          {"clipped, dynamic", clipped()},
          {"clipped head norms, longrope", clipped_and_normed()},
          {"sinks, a window", sinks()},
          {"a layer without rotary", partly_rotary()},
          {"temperatures of queries", tempered()},
          {"chunks", chunked()},
          {"keys of other layers", shared_keys()},
          {"inputs of layers", layer_inputs()},
          {"copies of the hidden state", several_copies()}};
}

}  // namespace packtrain
