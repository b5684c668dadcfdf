// What a decoder-only model is, family differences as data. A default is what Llama has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "models/ops/activation/activation_kind.h"

namespace packtrain {

// How rotary frequencies are stretched for positions beyond those of pretraining (ops/rotary).
struct RotaryScaling {
  enum class Kind { kNone, kLinear, kDynamic, kLlama3, kYarn, kLongRope };
  Kind kind = Kind::kNone;
  double factor = 1.0;
  std::int64_t original_max_positions = 8192;  // dynamic, llama3, yarn, longrope
  double low_frequency_factor = 1.0;           // llama3
  double high_frequency_factor = 4.0;          // llama3
  double beta_fast = 32.0;                     // yarn
  double beta_slow = 1.0;                      // yarn
  bool truncate = true;                        // yarn: bounds of the ramp to whole dimensions
  double attention_factor = 1.0;               // yarn, longrope: of cosine and sine
  std::vector<double> short_factors;           // longrope, [rotary_dim / 2]: of examples of at most
  std::vector<double> long_factors;            // original_max_positions tokens; and of longer ones

  bool operator==(const RotaryScaling&) const = default;
};

struct RotaryConfig {
  double base = 10000.0;
  RotaryScaling scaling;

  bool operator==(const RotaryConfig&) const = default;
};

enum class NormKind { kRms, kLayer };

struct NormConfig {
  NormKind kind = NormKind::kRms;
  double epsilon = 1e-6;
  double weight_offset = 0;  // RMS: scales by offset + w
  bool has_weight = true;
  bool has_bias = false;  // layer norm

  bool operator==(const NormConfig&) const = default;
};

// Norms of queries and keys before they are turned; epsilon and offset are NormConfig's.
enum class QkNormKind {
  kNone,
  kHead,      // RMS of each head, one weight [head_dim] for all heads
  kFull,      // RMS over all heads at once, weights [heads * head_dim]
  kHeadLayer  // layer norm of each head, weights [heads, head_dim], no bias
};

enum class ResidualKind {
  kSequential,       // x + attention(norm(x)), then x + mlp(norm(x))
  kParallel,         // x + attention(n) + mlp(n), n = norm(x)
  kParallelTwoNorms  // x + attention(norm(x)) + mlp(other_norm(x))
};

// Mixture of experts in the place of an MLP: the same activation, top-k routing, no token dropped.
struct ExpertsConfig {
  std::int64_t num_experts = 0;  // 0: no layer has any
  std::int64_t experts_per_token = 0;
  std::int64_t intermediate_size = 0;  // of one expert
  bool softmax_first = true;           // over all experts, before the choice; else over the chosen
  bool normalize_weights = false;      // softmax_first: those of the chosen experts sum to 1
  bool router_bias = false;
  bool bias = false;                          // of the experts' projections
  std::int64_t shared_intermediate_size = 0;  // of an MLP beside, for all tokens; 0: none
  bool shared_gate = false;                   // which is scaled by sigmoid(x w)
  double auxiliary_loss = 0;                  // coefficient of the load-balancing loss

  bool operator==(const ExpertsConfig&) const = default;
};

// What may differ from layer to layer.
struct LayerPattern {
  std::int64_t window = 0;    // keys a query sees, its own included; 0: all before it
  bool local_rotary = false;  // DecoderConfig::local_rotary
  bool experts = false;

  bool operator==(const LayerPattern&) const = default;
};

struct DecoderConfig {
  std::string family;  // HF model_type
  std::int64_t vocab_size = 0;
  std::int64_t hidden_size = 0;
  std::int64_t intermediate_size = 0;
  std::int64_t num_layers = 0;
  std::int64_t num_heads = 0;
  std::int64_t num_kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t max_positions = 0;
  std::vector<LayerPattern> layers;  // [num_layers], or empty: all as LayerPattern{}

  NormConfig norm;
  bool norm_before = true;  // of what a branch (attention, MLP) reads
  bool norm_after = false;  // of what a branch adds to the residual stream
  ResidualKind residual = ResidualKind::kSequential;
  double residual_multiplier = 1.0;  // of what a branch adds

  QkNormKind qk_norm = QkNormKind::kNone;
  double clip_qkv = 0;            // queries, keys and values to [-clip, clip]; 0: not
  double attention_scale = 0;     // of q k^T; 0: 1 / sqrt(head_dim)
  double attention_soft_cap = 0;  // c: scores become c tanh(score / c); 0: not
  bool attention_sinks = false;   // a learned logit a head that takes part in the softmax
  bool qkv_bias = false;
  bool attention_output_bias = false;

  std::int64_t rotary_dim = 0;  // the first elements of a head, which are turned; 0: all
  RotaryConfig rotary;
  RotaryConfig local_rotary;  // of the layers that say so

  Activation activation = {ActivationKind::kSilu, /*gated=*/true};
  bool mlp_bias = false;
  ExpertsConfig experts;

  bool tied_embeddings = false;
  double embedding_multiplier = 1.0;
  double logit_multiplier = 1.0;
  double logit_soft_cap = 0;  // 0: none
  bool head_bias = false;
  double initializer_range = 0.02;

  LayerPattern layer(std::int64_t index) const {
    return layers.empty() ? LayerPattern{} : layers.at(static_cast<std::size_t>(index));
  }
  bool has_shared_norm() const { return residual == ResidualKind::kParallel; }
  // Elements of a head that are turned.
  std::int64_t resolved_rotary_dim() const { return rotary_dim == 0 ? head_dim : rotary_dim; }

  bool operator==(const DecoderConfig&) const = default;
};

}  // namespace packtrain
