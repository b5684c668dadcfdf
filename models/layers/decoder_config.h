// Configuration of a decoder-only model. Differences between families are data. Defaults are those
// of Llama.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "framework/data/attention_pattern.h"
#include "models/layers/adapter_targets.h"
#include "models/layers/altup_config.h"
#include "models/layers/delta_net_config.h"
#include "models/layers/experts_config.h"
#include "models/layers/latent_attention_config.h"
#include "models/layers/layer_multipliers.h"
#include "models/layers/linear_precision.h"
#include "models/layers/mamba2_config.h"
#include "models/ops/activation/activation_kind.h"
#include "models/ops/rotary/rotary_config.h"

namespace packtrain {

enum class NormKind { kRms, kLayer };

struct NormConfig {
  NormKind kind = NormKind::kRms;
  double epsilon = 1e-6;
  double weight_offset = 0;  // RMS: scales by offset + weight
  bool has_weight = true;
  bool has_bias = false;  // layer norm

  bool operator==(const NormConfig&) const = default;
};

// Norms of queries and keys, before rotary positions but for the last kind. NormConfig has epsilon
// and offset.
enum class QkNormKind {
  kNone,
  kHead,       // RMS of each head, one weight [head_dim] for all heads
  kFull,       // RMS over all heads together, weights [heads * head_dim]
  kHeadLayer,  // layer norm of each head, weights [heads, head_dim], no bias
  kHeadUnit,   // RMS of each head, no weight, in the layers with rotary positions alone
  kTurnedHead  // kHead after rotary positions
};

enum class ResidualKind {
  kSequential,       // x + attention(norm(x)), then x + mlp(norm(x))
  kParallel,         // x + attention(n) + mlp(n), n = norm(x)
  kParallelTwoNorms  // x + attention(norm(x)) + mlp(other_norm(x))
};

// A mixer of rows in some layers instead of attention: a gated short convolution (ops/short_conv).
struct ShortConvConfig {
  std::int64_t width = 0;  // rows that it reads, its own included; 0: no layer has this mixer
  bool bias = false;       // of the convolution and of both projections

  bool operator==(const ShortConvConfig&) const = default;
};

// The queries at position p are multiplied by 1 + beta log(1 + floor((p + offset) / num_positions))
// (Llama 4's attention temperature).
struct QueryTemperature {
  double beta = 0;  // 0: they are not
  std::int64_t num_positions = 1;
  std::int64_t offset = 0;
  bool only_without_rotary = false;  // in the layers without rotary positions alone

  bool operator==(const QueryTemperature&) const = default;
};

// Settings that may differ between layers.
struct LayerPattern {
  AttentionPattern attention = {};
  bool local_rotary = false;  // uses DecoderConfig::local_rotary
  bool no_rotary = false;     // queries and keys keep their values
  bool experts = false;
  // A layer with one of these has no attention.
  bool delta_net = false;   // mixes rows as DecoderConfig::delta_net says
  bool short_conv = false;  // mixes rows as DecoderConfig::short_conv says
  bool mamba2 = false;      // mixes rows as DecoderConfig::mamba2 says
  // Has attention and DecoderConfig::mamba2. Both read the same rows and add to the same ones.
  bool parallel_mamba2 = false;
  // A layer without one of its two branches. It has no norm of that branch either.
  bool no_mixer = false;
  bool no_mlp = false;
  // 0: those of DecoderConfig.
  std::int64_t head_dim = 0;
  std::int64_t num_kv_heads = 0;
  std::int64_t intermediate_size = 0;
  double gate_sparsity = 0;     // share of the MLP's gates that a cutoff sets to 0; 0: no cutoff
  bool keys_as_values = false;  // values are the projected keys before their norm and positions
  bool keeps_keys = false;      // later layers attend to its keys and values
  // An earlier layer, to whose keys and values it attends; -1: it has its own. Such a layer has
  // QkNormKind::kHead.
  std::int64_t keys_of_layer = -1;

  bool reads_keys() const { return keys_of_layer >= 0; }
  bool has_attention() const { return !no_mixer && !delta_net && !short_conv && !mamba2; }
  bool has_other_mixer() const { return delta_net || short_conv || mamba2 || parallel_mamba2; }
  bool has_both_branches() const { return !no_mixer && !no_mlp; }

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
  std::vector<LayerPattern> layers;  // [num_layers], or empty: LayerPattern{} for all

  NormConfig norm;
  bool norm_before = true;  // of the input of a branch (attention, MLP)
  bool norm_after = false;  // of the output of a branch, before the residual add
  ResidualKind residual = ResidualKind::kSequential;
  double residual_multiplier = 1.0;  // factor of a branch's output
  LayerMultipliers multipliers;

  QkNormKind qk_norm = QkNormKind::kNone;
  bool value_norm = false;        // RMS of each value head, without a weight
  double clip_qkv = 0;            // clips queries, keys and values to [-clip, clip]; 0: no clipping
  double attention_scale = 0;     // factor of q k^T; 0: 1 / sqrt(head_dim)
  double attention_soft_cap = 0;  // c: scores become c tanh(score / c); 0: no cap
  QueryTemperature query_temperature;
  bool attention_scale_by_layer = false;  // layer i divides its scores by i + 1
  bool attention_sinks = false;  // a learned logit for each head that takes part in the softmax
  bool attention_gate = false;   // the logistic function of a projection multiplies the output
  bool qkv_bias = false;
  bool attention_output_bias = false;
  DeltaNetConfig delta_net;
  ShortConvConfig short_conv;
  Mamba2Config mamba2;
  LatentAttentionConfig latent;

  std::int64_t rotary_dim = 0;  // first elements of a head, which rotate; 0: all
  RotaryConfig rotary;
  RotaryConfig local_rotary;        // of the layers with local_rotary
  bool interleaved_rotary = false;  // turns elements 2i and 2i + 1, not i and i + rotary_dim / 2

  Activation activation = {ActivationKind::kSilu, /*gated=*/true};
  // The MLP's activation is xIELU, which has trained parameters (ops/xielu). `activation` then says
  // that it is not gated.
  bool xielu = false;
  bool mlp_bias = false;
  ExpertsConfig experts;

  bool learned_positions = false;  // a vector for each of max_positions, added to the embedding
  bool tied_embeddings = false;
  double embedding_multiplier = 1.0;
  double logit_multiplier = 1.0;
  double logit_soft_cap = 0;  // 0: none
  bool head_bias = false;
  double initializer_range = 0.02;

  // Elements of the rows that each layer adds in a third branch (per-layer embeddings). They are
  // the sum of an embedding of the token and of a normed projection of the embedded row; 0: none.
  std::int64_t layer_input_width = 0;
  // Rows of that embedding. Larger ids have the row of id 0; 0: vocab_size.
  std::int64_t layer_input_vocab = 0;
  AltUpConfig altup;
  bool layer_scale = false;  // a constant multiplies the output of a layer

  std::shared_ptr<const AdapterTargets> adapter;  // null: all parameters are trained
  LinearPrecision linear;  // of the layers' linear weights; not of experts, embedding and head

  LayerPattern layer(std::int64_t index) const {
    return layers.empty() ? LayerPattern{} : layers.at(static_cast<std::size_t>(index));
  }
  std::int64_t head_dim_of(std::int64_t index) const {
    const std::int64_t own = layer(index).head_dim;
    return own == 0 ? head_dim : own;
  }
  std::int64_t num_kv_heads_of(std::int64_t index) const {
    const std::int64_t own = layer(index).num_kv_heads;
    return own == 0 ? num_kv_heads : own;
  }
  std::int64_t intermediate_size_of(std::int64_t index) const {
    const std::int64_t own = layer(index).intermediate_size;
    return own == 0 ? intermediate_size : own;
  }
  // Rows of keys and values in the projection of a layer, of head_dim_of() elements each.
  std::int64_t num_projected_kv_heads(std::int64_t index) const {
    if (layer(index).reads_keys()) return 0;
    return num_kv_heads_of(index) * (layer(index).keys_as_values ? 1 : 2);
  }
  // Elements of the inputs of all layers.
  std::int64_t layer_inputs_width() const { return num_layers * layer_input_width; }
  std::int64_t num_layer_input_rows() const {
    return layer_input_vocab == 0 ? vocab_size : layer_input_vocab;
  }
  // Elements of a row between two layers.
  std::int64_t stream_width() const {
    return altup.exists() ? altup.num_copies * hidden_size : hidden_size;
  }
  RotaryConfig rotary_of(std::int64_t index) const {
    const LayerPattern pattern = layer(index);
    if (pattern.no_rotary) return {.rotates = false};
    return pattern.local_rotary ? local_rotary : rotary;
  }
  // False for a parameter under an adapter that is not trained with it.
  bool is_trained(const std::string& parameter) const {
    return adapter == nullptr || adapter->trained.contains(parameter);
  }
  // The low-rank update of a weight, or null.
  std::shared_ptr<const LoraModules> lora_of(const std::string& weight) const {
    const LoraModules* modules = adapter == nullptr ? nullptr : adapter->find(weight);
    return modules == nullptr ? nullptr : std::shared_ptr<const LoraModules>(adapter, modules);
  }
  // The updates of a weight: of one adapter, of each of several, or none.
  std::vector<WeightUpdate> updates_of(const std::string& weight) const {
    std::vector<WeightUpdate> updates;
    if (adapter == nullptr) return updates;
    const auto add = [&](const AdapterTargets& one) {
      if (const LoraModules* modules = one.find(weight)) {
        updates.push_back({{adapter, modules}, one.dropout, one.name, one.use_dora});
        return true;
      }
      updates.push_back({nullptr, 0, one.name});
      return false;
    };
    bool any = adapter->several.empty() && add(*adapter);
    for (const AdapterTargets& one : adapter->several) any = add(one) || any;
    if (!any) updates.clear();
    return updates;
  }
  // The products of a linear layer's weight [out, in] that read 8-bit floats. A frozen weight has
  // no gradient. DoRA with dropout divides the weight by modules, which an 8-bit product cannot.
  Fp8Products fp8_of(const std::string& weight, std::int64_t out, std::int64_t in) const {
    const Fp8Products products = linear.of(weight, out, in);
    if (products == Fp8Products::kNone || divides_weight(weight)) return Fp8Products::kNone;
    return is_trained(weight) ? products : Fp8Products::kForwardAndInput;
  }
  // True if each module of the weight has a product of its own.
  bool divides_weight(const std::string& weight) const {
    return std::ranges::any_of(updates_of(weight), [](const WeightUpdate& update) {
      return update.use_dora && update.dropout > 0;
    });
  }
  bool has_norm_before(std::int64_t index) const {
    return norm_before || (delta_net.norms_before && layer(index).delta_net);
  }
  bool has_norm_after(std::int64_t index) const {
    return norm_after && !(delta_net.norms_before && layer(index).delta_net);
  }
  // True if some layer has another mixer, which cannot follow rows that examples share.
  bool has_other_mixers() const {
    return std::ranges::any_of(layers, &LayerPattern::has_other_mixer);
  }
  bool has_latent_attention() const { return latent.key_value_rank > 0; }
  // Elements of a head of attention's output that the output projection reads.
  std::int64_t value_head_dim(std::int64_t index) const {
    return has_latent_attention() ? latent.value_head_dim : head_dim_of(index);
  }
  bool has_shared_norm() const { return residual == ResidualKind::kParallel; }
  // Number of elements of a head that rotate.
  std::int64_t resolved_rotary_dim() const { return rotary_dim == 0 ? head_dim : rotary_dim; }
  std::int64_t rotary_dim_of(std::int64_t index) const {
    return rotary_dim == 0 ? head_dim_of(index) : rotary_dim;
  }

  bool operator==(const DecoderConfig&) const = default;
};

// The model that the adapter changes.
inline DecoderConfig without_adapter(DecoderConfig config) {
  config.adapter = nullptr;
  return config;
}

}  // namespace packtrain
