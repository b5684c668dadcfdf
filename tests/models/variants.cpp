#include "tests/models/variants.h"

#include <memory>
#include <utility>

#include "tests/models/batches.h"

namespace packtrain {
namespace {

DecoderConfig without_biases() {
  DecoderConfig config = small_config();
  config.qkv_bias = config.attention_output_bias = config.mlp_bias = false;
  return config;
}

// Norms on both sides of a branch, weights around 1, caps and multipliers.
DecoderConfig both_norms() {
  DecoderConfig config = without_biases();
  config.norm.weight_offset = 1;
  config.norm_after = true;
  config.embedding_multiplier = 3;
  config.logit_soft_cap = 2;
  config.activation = {ActivationKind::kGeluTanh, true};
  config.tied_embeddings = true;
  return config;
}

DecoderConfig norms_after() {
  DecoderConfig config = without_biases();
  config.norm_before = false;
  config.norm_after = true;
  return config;
}

// Without biases the products themselves multiply (gemm_may_scale).
DecoderConfig multiplied(DecoderConfig config) {
  config.residual_multiplier = 0.3;
  config.attention_scale = 0.2;
  config.logit_multiplier = 0.7;
  config.embedding_multiplier = 1.5;
  return config;
}

// Both branches read one layer norm; a plain MLP; biases everywhere.
DecoderConfig parallel() {
  DecoderConfig config = small_config();
  config.residual = ResidualKind::kParallel;
  config.norm = {.kind = NormKind::kLayer, .epsilon = 1e-5, .has_bias = true};
  config.activation = {ActivationKind::kGeluTanh, false};
  config.head_bias = true;
  return config;
}

DecoderConfig parallel_two_norms() {
  DecoderConfig config = without_biases();
  config.residual = ResidualKind::kParallelTwoNorms;
  config.norm = {.kind = NormKind::kLayer, .epsilon = 1e-5, .has_bias = true};
  config.norm.weight_offset = 1;
  config.activation = {ActivationKind::kGeluErf, false};
  config.num_kv_heads = 1;
  return config;
}

DecoderConfig plain_layer_norm() {
  DecoderConfig config = without_biases();
  config.activation = {ActivationKind::kSquaredRelu, false};
  config.norm = {.kind = NormKind::kLayer, .epsilon = 1e-5, .has_weight = false};
  config.layers = {{.attention = {.window = 5}}, {}};
  return config;
}

// Biases everywhere, a dense layer before one of experts, weights that sum to 1.
DecoderConfig some_experts() {
  DecoderConfig config = small_config();
  config.layers = {{}, {.experts = true}};
  config.activation.kind = ActivationKind::kClampedSwish;
  config.experts = {.num_experts = 5,
                    .experts_per_token = 2,
                    .intermediate_size = 24,
                    .softmax_first = false,
                    .router_bias = true,
                    .bias = true};
  return config;
}

DecoderConfig shared_experts() {
  DecoderConfig config = without_biases();
  config.layers = {{.experts = true}, {.experts = true}};
  config.experts = {.num_experts = 7,
                    .experts_per_token = 3,
                    .intermediate_size = 20,
                    .shared_intermediate_size = 40,
                    .shared_gate = true};
  return config;
}

DecoderConfig balanced_experts() {
  DecoderConfig config = shared_experts();
  config.residual_multiplier = 0.5;
  config.experts.normalize_weights = true;
  config.experts.shared_gate = false;
  config.experts.auxiliary_loss = 0.1;
  return config;
}

// Groups of experts, weights that sum to more than 1, a dense layer.
DecoderConfig sigmoid_router() {
  DecoderConfig config = shared_experts();
  config.layers = {{}, {.experts = true}};
  config.experts.num_experts = 6;
  config.experts.shared_gate = false;
  config.experts.normalize_weights = true;
  config.experts.router = RouterKind::kSigmoid;
  config.experts.choice_bias = true;
  config.experts.num_groups = 3;
  config.experts.groups_per_token = 2;
  config.experts.weight_multiplier = 1.5;
  return config;
}

DecoderConfig xielu_mlp() {
  DecoderConfig config = small_config();
  config.xielu = true;
  config.activation.gated = false;
  return config;
}

// Heads turn before their norms, by angles with a factor, and not at all in one layer.
DecoderConfig turned_head_norms() {
  DecoderConfig config = small_config();
  config.qk_norm = QkNormKind::kTurnedHead;
  config.norm.epsilon = 0.05;
  config.rotary_dim = 6;
  config.rotary.scaling.kind = RotaryScaling::Kind::kYarn;
  config.rotary.scaling.factor = 4;
  config.rotary.scaling.original_max_positions = 16;
  config.rotary.scaling.attention_factor = 1.3;
  config.layers = {{}, {.no_rotary = true}};
  return config;
}

// An MLP and experts with norms of their own. The router's rows have a third norm.
DecoderConfig experts_next_to_mlp() {
  DecoderConfig config = shared_experts();
  config.norm_after = true;
  config.activation = {ActivationKind::kGeluTanh, true};
  config.experts.shared_intermediate_size = 0;
  config.experts.shared_gate = false;
  config.experts.normalize_weights = config.experts.expert_scale = true;
  config.experts.next_to_mlp = config.experts.router_norm = true;
  config.experts.logit_multiplier = 0.4;
  config.layers[1].intermediate_size = 40;
  return config;
}

// No norm of their sum. The router reads what experts read. The balancing loss reads all rows.
DecoderConfig balanced_experts_next_to_mlp() {
  DecoderConfig config = experts_next_to_mlp();
  config.norm_after = config.experts.router_norm = false;
  config.experts.normalize_weights = false;
  config.experts.auxiliary_loss = 0.1;
  config.layers[0].experts = false;
  return config;
}

// Most experts compete. The balancing loss reads the probabilities of all.
DecoderConfig sparse_mixer() {
  DecoderConfig config = balanced_experts();
  config.experts.shared_intermediate_size = 0;
  config.experts.experts_per_token = 2;
  config.experts.router = RouterKind::kSparseMixer;
  config.experts.mixer_epsilon = 0.5;
  config.head_bias = true;
  return config;
}

// GPT-2's structure: positions of their own next to an embedding that is the head.
DecoderConfig learned_positions() {
  DecoderConfig config = small_config();
  config.norm = {.kind = NormKind::kLayer, .epsilon = 1e-5, .has_bias = true};
  config.activation = {ActivationKind::kGeluTanh, false};
  config.layers = {{.no_rotary = true}, {.no_rotary = true}};
  config.learned_positions = true;
  config.attention_scale_by_layer = true;
  config.embedding_multiplier = 2;
  config.tied_embeddings = true;
  return config;
}

// Queries and keys of 16 elements, 4 of which turn, and values of 8. Experts in groups.
DecoderConfig latent_attention() {
  DecoderConfig config = shared_experts();
  config.layers = {{}, {.experts = true}};
  config.num_kv_heads = config.num_heads;
  config.head_dim = 16;
  config.rotary_dim = 4;
  config.interleaved_rotary = true;
  config.latent = {
      .key_value_rank = 9, .query_rank = 10, .value_head_dim = 8, .norm_epsilon = 1e-3};
  config.experts.num_experts = 6;
  config.experts.shared_gate = false;
  config.experts.num_groups = 3;
  config.experts.groups_per_token = 2;
  config.experts.weight_multiplier = 1.5;
  return config;
}

// Queries of whole rows, values as wide as keys, biases.
DecoderConfig latent_keys() {
  DecoderConfig config = small_config();
  config.num_kv_heads = config.num_heads;
  config.rotary_dim = 2;
  config.latent = {.key_value_rank = 7, .value_head_dim = config.head_dim};
  return config;
}

// Both projections of one layer, one of the other.
DecoderConfig adapted_experts() {
  DecoderConfig config = shared_experts();
  config.experts.bias = true;
  AdapterTargets adapter;
  adapter.weights["layers.0.mlp.experts.gate_up.weight"] = {{"gate_up_proj", 0, 40, 4, 8.0}};
  adapter.weights["layers.0.mlp.experts.down.weight"] = {{"down_proj", 0, 32, 3, 10.0}};
  adapter.weights["layers.1.mlp.experts.down.weight"] = {{"down_proj", 0, 32, 5, 6.0}};
  config.adapter = std::make_shared<const AdapterTargets>(adapter);
  return config;
}

// All modules of one layer, and some of a fused weight in the other.
DecoderConfig adapted_rows() {
  DecoderConfig config = small_config();
  AdapterTargets adapter;
  adapter.use_dora = true;
  adapter.weights["layers.0.attention.qkv.weight"] = {
      {"q_proj", 0, 32, 4, 8.0}, {"k_proj", 32, 16, 3, 6.0}, {"v_proj", 48, 16, 4, 8.0}};
  adapter.weights["layers.0.attention.output.weight"] = {{"o_proj", 0, 32, 4, 8.0}};
  adapter.weights["layers.0.mlp.gate_up.weight"] = {{"gate_proj", 0, 48, 4, 8.0},
                                                    {"up_proj", 48, 48, 2, 9.0}};
  adapter.weights["layers.0.mlp.down.weight"] = {{"down_proj", 0, 32, 4, 8.0}};
  adapter.weights["layers.1.attention.qkv.weight"] = {{"k_proj", 32, 16, 3, 6.0}};
  adapter.weights["layers.1.mlp.down.weight"] = {{"down_proj", 0, 32, 5, 7.0}};
  config.adapter = std::make_shared<const AdapterTargets>(adapter);
  return config;
}

}  // namespace

std::vector<Variant> decoder_variants() {
  std::vector<Variant> all = {{"plain", small_config()},
                              {"norms before and after", both_norms()},
                              {"norms after", norms_after()},
                              {"multipliers", multiplied(small_config())},
                              {"multiplied products", multiplied(without_biases())},
                              {"parallel, one norm", parallel()},
                              {"parallel, two norms", parallel_two_norms()},
                              {"norms without weights, a window", plain_layer_norm()},
                              {"a layer of experts", some_experts()},
                              {"shared experts", shared_experts()},
                              {"a sigmoid router", sigmoid_router()},
                              {"learned positions", learned_positions()},
                              {"latent attention", latent_attention()},
                              {"latent keys", latent_keys()},
                              {"experts with adapters", adapted_experts()},
                              {"magnitudes of rows", adapted_rows()},
                              {"experts with an auxiliary loss", balanced_experts()},
                              {"a sparse mixer", sparse_mixer()}};
  for (Variant& variant : mixer_variants()) all.push_back(std::move(variant));
  for (Variant& variant : attention_variants()) all.push_back(std::move(variant));
  all.push_back({"norms of turned heads", turned_head_norms()});
  all.push_back({"xIELU", xielu_mlp()});
  all.push_back({"experts next to an MLP", experts_next_to_mlp()});
  all.push_back({"balanced experts next to an MLP", balanced_experts_next_to_mlp()});
  return all;
}

std::vector<Variant> variants_and_fp8() {
  const std::vector<Variant> plain = decoder_variants();
  std::vector<Variant> variants = plain;
  for (const Fp8Products products : {Fp8Products::kAll, Fp8Products::kForwardAndInput}) {
    for (Variant variant : plain) {
      variant.name += products == Fp8Products::kAll ? " in fp8" : " in fp8, weight gradient apart";
      variant.config.linear.products = products;
      variants.push_back(std::move(variant));
    }
  }
  // Scales of blocks, of each kind in some variants.
  const LinearPrecision blocks[] = {{Fp8Products::kAll, {}, Fp8Recipe::kBlock},
                                    {Fp8Products::kAll, {}, Fp8Recipe::kBlockAndTensorOfGradient},
                                    {Fp8Products::kForwardAndInput, {}, Fp8Recipe::kBlock}};
  for (std::size_t i = 0; i < plain.size(); ++i) {
    variants.push_back(plain[i]);
    variants.back().name += " in blocks of fp8";
    variants.back().config.linear = blocks[i % std::size(blocks)];
  }
  return variants;
}

}  // namespace packtrain
