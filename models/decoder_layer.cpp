#include "models/decoder_layer.h"

#include <ATen/ops/add.h>

#include <string>
#include <utility>

#include "models/batch.h"
#include "models/ops/attention/attention.h"
#include "models/ops/linear/linear.h"
#include "models/ops/rms_norm/rms_norm.h"
#include "models/ops/swiglu/swiglu.h"

namespace packtrain {

// The parameters by name, in the order of layer_parameters() (models/parameters.h). Biases are null
// where the model has none.
struct DecoderLayer::Weights {
  const Parameter* attention_norm;
  const Parameter* qkv;
  const Parameter* qkv_bias;
  const Parameter* output;
  const Parameter* output_bias;
  const Parameter* mlp_norm;
  const Parameter* gate_up;
  const Parameter* gate_up_bias;
  const Parameter* down;
  const Parameter* down_bias;
};

DecoderLayer::DecoderLayer(const DecoderConfig& config, std::int64_t index, bool recompute,
                           std::vector<ParameterSpec> parameters,
                           std::shared_ptr<const RotaryFrequencies> frequencies)
    : AutogradBlock("layers." + std::to_string(index), std::move(parameters), recompute),
      config_(config),
      frequencies_(std::move(frequencies)) {}

DecoderLayer::Weights DecoderLayer::weights(std::span<const Parameter> parameters) const {
  const Parameter* next = parameters.data();
  const auto optional = [&next](bool present) { return present ? next++ : nullptr; };
  Weights weights{};
  weights.attention_norm = next++;
  weights.qkv = next++;
  weights.qkv_bias = optional(config_.qkv_bias);
  weights.output = next++;
  weights.output_bias = optional(config_.attention_output_bias);
  weights.mlp_norm = next++;
  weights.gate_up = next++;
  weights.gate_up_bias = optional(config_.mlp_bias);
  weights.down = next++;
  weights.down_bias = optional(config_.mlp_bias);
  return weights;
}

at::Tensor DecoderLayer::attend(const Weights& weights, const DeviceBatch& batch,
                                const at::Tensor& x) const {
  const AttentionShape shape{config_.num_heads, config_.num_kv_heads, config_.head_dim};
  const std::int64_t num_rotated = shape.num_heads + shape.num_kv_heads;
  const at::Tensor qkv = linear(x, *weights.qkv, weights.qkv_bias)
                             .view({x.size(0), num_rotated + shape.num_kv_heads, shape.head_dim});
  const RotaryTables tables = rotary_tables(batch.position_ids, frequencies_->on(x.device()));
  const at::Tensor mixed = attention(rotary(qkv, num_rotated, tables), shape, batch);
  return linear(mixed, *weights.output, weights.output_bias);
}

at::Tensor DecoderLayer::compute(std::span<const Parameter> parameters, const DeviceBatch& batch,
                                 const at::Tensor& x) const {
  const Weights w = weights(parameters);
  const at::Tensor normed = rms_norm(x, *w.attention_norm, config_.norm_epsilon);
  const at::Tensor middle = at::add(x, attend(w, batch, normed));
  const at::Tensor gate_up =
      linear(rms_norm(middle, *w.mlp_norm, config_.norm_epsilon), *w.gate_up, w.gate_up_bias);
  return at::add(middle, linear(swiglu(gate_up), *w.down, w.down_bias));
}

}  // namespace packtrain
