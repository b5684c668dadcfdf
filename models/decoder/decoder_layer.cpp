#include "models/decoder/decoder_layer.h"

#include <utility>

#include "models/block/batch.h"
#include "models/layers/expert_layers.h"
#include "models/layers/layer_attention.h"
#include "models/layers/recorded_attention.h"
#include "models/layers/recorded_experts.h"
#include "models/layers/recorded_operators.h"

namespace packtrain {

DecoderLayer::DecoderLayer(const DecoderConfig& config, std::int64_t index, RecomputePolicy policy,
                           std::vector<ParameterSpec> parameters,
                           std::shared_ptr<const RotaryFrequencies> frequencies)
    : RecordedBlock("layers." + std::to_string(index), std::move(parameters), policy),
      config_(config),
      index_(index),
      has_experts_(config.layer(index).experts),
      last_(index + 1 == config.num_layers),
      frequencies_(std::move(frequencies)) {
  const std::size_t prefix = name().size() + 1;
  for (const ParameterSpec& parameter : this->parameters()) {
    parameter_index_.emplace(parameter.name.substr(prefix), parameter_index_.size());
  }
}

const Parameter* DecoderLayer::find(OperatorTape& tape, const std::string& name) const {
  const auto place = parameter_index_.find(name);
  return place == parameter_index_.end() ? nullptr : &tape.parameters().at(place->second);
}

NormWeights DecoderLayer::norm_weights(OperatorTape& tape, std::string_view name) const {
  return {find(tape, std::string(name) + ".weight"), find(tape, std::string(name) + ".bias")};
}

Value DecoderLayer::norm_before(OperatorTape& tape, std::string_view name, Value x) const {
  return config_.norm_before ? norm(tape, name, x, norm_weights(tape, name), config_.norm) : x;
}

Value DecoderLayer::project(OperatorTape& tape, const std::string& name, Value x,
                            std::optional<Value> residual) const {
  const Parameter& weight = tape.parameters().at(parameter_index_.at(name + ".weight"));
  return linear(tape, name, x, weight, find(tape, name + ".bias"), residual);
}

Value DecoderLayer::attend(OperatorTape& tape, const DeviceBatch& batch, Value x) const {
  const RotaryConfig& rotary =
      config_.layer(index_).local_rotary ? config_.local_rotary : config_.rotary;
  AttentionOptions options;
  options.shape = layer_attention(config_, index_);
  options.rotary = {frequencies_->of(batch),
                    {.num_rotated_heads = config_.num_heads + config_.num_kv_heads,
                     .scaling = rotary.scaling.attention_factor}};
  options.clip_qkv = config_.clip_qkv;
  options.qk_norm = config_.qk_norm;
  options.norm = {.epsilon = config_.norm.epsilon, .weight_offset = config_.norm.weight_offset};
  const AttentionWeights weights{find(tape, "attention.query_norm.weight"),
                                 find(tape, "attention.key_norm.weight"),
                                 find(tape, "attention.sinks")};
  return self_attention(tape, "attention", project(tape, "attention.qkv", x), weights, options,
                        batch);
}

Value DecoderLayer::mlp_inner(OperatorTape& tape, const std::string& branch, Value x) const {
  const char* projection = config_.activation.gated ? ".gate_up" : ".up";
  const Value inner = project(tape, branch + projection, x);
  return activation(tape, branch + ".activation", inner, config_.activation);
}

Value DecoderLayer::shared_expert(OperatorTape& tape, Value x,
                                  std::optional<Value> residual) const {
  const Value inner = mlp_inner(tape, "mlp.shared", x);
  const Parameter* gate = find(tape, "mlp.shared_gate.weight");
  if (gate == nullptr) return project(tape, "mlp.shared.down", inner, residual);
  const Value output = project(tape, "mlp.shared.down", inner);
  return shared_expert_gate(tape, "mlp.shared", x, output, *gate, residual);
}

Value DecoderLayer::mlp(OperatorTape& tape, const DeviceBatch& batch, Value x,
                        std::optional<Value> residual) const {
  if (!has_experts_) return project(tape, "mlp.down", mlp_inner(tape, "mlp", x), residual);
  const ExpertsWeights weights{
      find(tape, "mlp.router.weight"),
      find(tape, "mlp.router.bias"),
      {find(tape, "mlp.experts.gate_up.weight"), find(tape, "mlp.experts.gate_up.bias")},
      {find(tape, "mlp.experts.down.weight"), find(tape, "mlp.experts.down.bias")}};
  const ExpertsOptions options{
      config_.experts, config_.activation, num_expert_layers(config_, index_),
      num_expert_layers(config_, config_.num_layers), tape.get(x).size(0) == batch.num_rows()};
  if (config_.experts.shared_intermediate_size > 0) residual = shared_expert(tape, x, residual);
  return experts(tape, "mlp", x, weights, options, batch, residual);
}

Value DecoderLayer::add_branch(OperatorTape& tape, const std::string& branch, const BranchEnd& end,
                               Value residual) const {
  if (!config_.norm_after && config_.residual_multiplier == 1.0) return end(residual);
  Value output = end(std::nullopt);
  if (config_.norm_after) {
    const std::string post_norm = branch + "_post_norm";
    output = norm(tape, post_norm, output, norm_weights(tape, post_norm), config_.norm);
  }
  return add(tape, branch + ".sum", residual, output, config_.residual_multiplier);
}

Value DecoderLayer::record(OperatorTape& tape, const DeviceBatch& batch, Value x) const {
  Value shared = norm_before(tape, "attention_norm", x);  // read by both branches where parallel
  Value mixed = attend(tape, batch, shared);
  const bool selects = last_ && batch.loss_index.size(0) < batch.num_rows();
  const bool selects_late = selects && last_layer_needs_all_rows(config_);
  if (selects && !selects_late) {
    mixed = select_rows(tape, "attention.supervised", mixed, batch.loss_index);
    x = select_rows(tape, "input.supervised", x, batch.loss_index);
    if (config_.has_shared_norm()) {
      shared = select_rows(tape, "attention_norm.supervised", shared, batch.loss_index);
    }
  }
  const Value middle = add_branch(
      tape, "attention",
      [&](auto residual) { return project(tape, "attention.output", mixed, residual); }, x);
  Value mlp_input = shared;
  if (!config_.has_shared_norm()) {
    const bool sequential = config_.residual == ResidualKind::kSequential;
    mlp_input = norm_before(tape, "mlp_norm", sequential ? middle : x);
  }
  const Value y = add_branch(
      tape, "mlp", [&](auto residual) { return mlp(tape, batch, mlp_input, residual); }, middle);
  return selects_late ? select_rows(tape, "output.supervised", y, batch.loss_index) : y;
}

}  // namespace packtrain
