#include "models/decoder_layer.h"

#include <string>
#include <utility>

#include "models/batch.h"
#include "models/layer_attention.h"
#include "models/recorded_attention.h"
#include "models/recorded_operators.h"

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

DecoderLayer::DecoderLayer(const DecoderConfig& config, std::int64_t index, RecomputePolicy policy,
                           std::vector<ParameterSpec> parameters,
                           std::shared_ptr<const RotaryFrequencies> frequencies)
    : RecordedBlock("layers." + std::to_string(index), std::move(parameters), policy),
      config_(config),
      index_(index),
      last_(index + 1 == config.num_layers),
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

Value DecoderLayer::attend(OperatorTape& tape, const Weights& weights, const DeviceBatch& batch,
                           Value x) const {
  const AttentionOptions options{layer_attention(config_, index_),
                                 {frequencies_->on(batch.position_ids.device()),
                                  {.num_rotated_heads = config_.num_heads + config_.num_kv_heads}}};
  const Value normed = rms_norm(tape, "attention_norm", x, *weights.attention_norm,
                                RmsNormOptions{config_.norm.epsilon});
  const Value qkv = linear(tape, "attention.qkv", normed, *weights.qkv, weights.qkv_bias);
  return self_attention(tape, "attention", qkv, options, batch);
}

Value DecoderLayer::record(OperatorTape& tape, const DeviceBatch& batch, Value x) const {
  const Weights w = weights(tape.parameters());
  Value mixed = attend(tape, w, batch, x);
  if (last_ && batch.loss_index.size(0) < tape.get(x).size(0)) {
    mixed = select_rows(tape, "attention.supervised", mixed, batch.loss_index);
    x = select_rows(tape, "input.supervised", x, batch.loss_index);
  }
  const Value middle = linear(tape, "attention.output", mixed, *w.output, w.output_bias, x);
  const Value normed =
      rms_norm(tape, "mlp_norm", middle, *w.mlp_norm, RmsNormOptions{config_.norm.epsilon});
  const Value gate_up = linear(tape, "mlp.gate_up", normed, *w.gate_up, w.gate_up_bias);
  const Value activated =
      activation(tape, "mlp.activation", gate_up, {ActivationKind::kSilu, /*gated=*/true});
  return linear(tape, "mlp.down", activated, *w.down, w.down_bias, middle);
}

}  // namespace packtrain
