// Decoders with layers that mix rows without attention.
#include "tests/models/batches.h"
#include "tests/models/variants.h"

namespace packtrain {
namespace {

DecoderConfig mixers_without_biases() {
  DecoderConfig config = small_config();
  config.qkv_bias = config.attention_output_bias = config.mlp_bias = false;
  return config;
}

DecoderConfig mixers_before_norms() {
  DecoderConfig config = mixers_without_biases();
  config.norm_before = false;
  config.norm_after = true;
  return config;
}

// A gated delta rule in one layer and gated attention in the other, under norms around 1.
DecoderConfig delta_rule() {
  DecoderConfig config = mixers_without_biases();
  config.norm.weight_offset = 1;
  config.qk_norm = QkNormKind::kHead;
  config.attention_gate = true;
  config.layers = {{.delta_net = true}, {}};
  config.delta_net = {.num_key_heads = 2,
                      .num_value_heads = 6,
                      .key_head_dim = 5,
                      .value_head_dim = 7,
                      .norm_epsilon = 1e-3};
  return config;
}

// Attention between norms after branches, then a delta rule between norms before them. Strengths
// are up to 2. The gate of attention stands next to queries without a norm.
DecoderConfig delta_rule_last() {
  DecoderConfig config = mixers_before_norms();
  config.attention_gate = true;
  config.layers = {{}, {.delta_net = true}};
  config.delta_net = {.num_key_heads = 3,
                      .num_value_heads = 3,
                      .key_head_dim = 16,
                      .value_head_dim = 16,
                      .conv_width = 2,
                      .beta_multiplier = 2,
                      .norms_before = true,
                      .max_decay = 4,
                      .min_step = 0.001,
                      .max_step = 0.1};
  return config;
}

// A short convolution with biases before attention.
DecoderConfig short_convolution() {
  DecoderConfig config = mixers_without_biases();
  config.layers = {{.short_conv = true}, {}};
  config.short_conv = {.width = 3, .bias = true};
  return config;
}

// A short convolution in the layer whose output the head reads.
DecoderConfig short_convolution_last() {
  DecoderConfig config = mixers_before_norms();
  config.layers = {{}, {.short_conv = true}};
  config.short_conv = {.width = 2};
  return config;
}

// Mamba-2's state space model with biases before attention.
DecoderConfig state_space_model() {
  DecoderConfig config = mixers_without_biases();
  config.layers = {{.mamba2 = true}, {.no_rotary = true}};
  config.mamba2 = {.num_heads = 6,
                   .head_dim = 16,
                   .num_groups = 2,
                   .state_dim = 16,
                   .conv_width = 3,
                   .projection_bias = true,
                   .norm_epsilon = 1e-3,
                   .norm_groups = 2};
  return config;
}

// The model in the layer whose output the head reads.
DecoderConfig state_space_model_last() {
  DecoderConfig config = mixers_before_norms();
  config.layers = {{}, {.mamba2 = true}};
  config.mamba2 = {.num_heads = 2, .head_dim = 16, .state_dim = 8, .conv_bias = false};
  return config;
}

// A branch in each layer: experts, a state space model, attention, and a dense MLP with biases.
DecoderConfig one_branch_a_layer() {
  DecoderConfig config = mixers_without_biases();
  config.num_layers = 4;
  config.mlp_bias = true;
  config.activation = {ActivationKind::kSquaredRelu, /*gated=*/false};
  config.layers = {{.experts = true, .no_mixer = true},
                   {.mamba2 = true, .no_mlp = true},
                   {.no_rotary = true, .no_mlp = true},
                   {.no_mixer = true}};
  config.mamba2 = {.num_heads = 6,
                   .head_dim = 16,
                   .num_groups = 2,
                   .state_dim = 16,
                   .norm_epsilon = 1e-3,
                   .norm_groups = 2};
  config.experts = {.num_experts = 5,
                    .experts_per_token = 2,
                    .intermediate_size = 24,
                    .normalize_weights = true,
                    .shared_intermediate_size = 16,
                    .shared_bias = true,
                    .router = RouterKind::kSigmoid,
                    .choice_bias = true,
                    .sum_epsilon = 1e-6};
  return config;
}

// The head reads the output of a layer without an MLP.
DecoderConfig mixer_without_mlp_last() {
  DecoderConfig config = mixers_without_biases();
  config.layers = {{.no_mixer = true}, {.no_mlp = true}};
  return config;
}

// Attention and a state space model without a norm on the same rows, with factors of all parts.
// Those of the model's inputs are large, because no norm enlarges its output.
DecoderConfig parallel_mixers() {
  DecoderConfig config = mixers_without_biases();
  config.layers = {{.parallel_mamba2 = true}, {.parallel_mamba2 = true}};
  config.mamba2 = {.num_heads = 6,
                   .head_dim = 16,
                   .num_groups = 2,
                   .state_dim = 16,
                   .conv_width = 3,
                   .has_norm = false};
  config.multipliers = {.attention_input = 1.2,
                        .key = 0.7,
                        .attention_output = 0.8,
                        .mamba2_input = 1.5,
                        .mamba2_parts = {2, 3, 3.5, 3, 0.9},
                        .mamba2_output = 0.6,
                        .mlp_gate = 0.9,
                        .mlp_output = 0.5};
  return config;
}

}  // namespace

std::vector<Variant> mixer_variants() {
  return {{"a delta rule, gated attention", delta_rule()},
          {"a delta rule in the last layer", delta_rule_last()},
          {"a short convolution", short_convolution()},
          {"a short convolution in the last layer", short_convolution_last()},
          {"a state space model", state_space_model()},
          {"a state space model in the last layer", state_space_model_last()},
          {"one branch a layer", one_branch_a_layer()},
          {"a mixer without an MLP in the last layer", mixer_without_mlp_last()},
          {"parallel mixers with factors", parallel_mixers()}};
}

}  // namespace packtrain
