#include "models/decoder/layer_operators.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "models/layers/expert_layers.h"
#include "models/layers/recorded_column_factors.h"
#include "models/layers/recorded_experts.h"
#include "models/layers/recorded_gate_cutoff.h"
#include "models/layers/recorded_layer_input.h"
#include "models/layers/recorded_operators.h"
#include "models/layers/recorded_xielu.h"
#include "models/ops/gate_cutoff/gate_cutoff.h"

namespace packtrain {

LayerOperators::LayerOperators(const DecoderConfig& config, std::int64_t index,
                               std::shared_ptr<const RotaryFrequencies> frequencies)
    : config_(config), index_(index), frequencies_(std::move(frequencies)) {
  const double sparsity = config.layer(index).gate_sparsity;
  gate_quantile_ = sparsity > 0 ? normal_quantile(sparsity) : 0;
  if (config.qk_norm == QkNormKind::kTurnedHead) {
    no_frequencies_ = std::make_shared<const RotaryFrequencies>(RotaryConfig{.rotates = false}, 2);
  }
}

Value LayerOperators::norm_before(OperatorTape& tape, const std::string& name, Value x) const {
  if (!config_.has_norm_before(index_)) return x;
  return norm(tape, name, x, config_.norm,
              needs_amax(config_.linear.products, config_.linear.recipe));
}

std::string LayerOperators::weight_name(const std::string& name) const {
  return fmt::format("layers.{}.{}.weight", index_, name);
}

Value LayerOperators::project(OperatorTape& tape, const std::string& name, Value x,
                              std::int64_t width, bool bias, std::optional<BranchSum> sum) const {
  LinearOptions options{width, bias, config_.initializer_range};
  const std::string weight = weight_name(name);
  options.trained = config_.is_trained(weight);
  options.updates = config_.updates_of(weight);
  options.fp8 = config_.fp8_of(weight, width, tape.shape(x).width);
  options.recipe = config_.linear.recipe;
  if (!sum) return linear(tape, name, x, options);
  if (sum->scale == 1.0 || gemm_may_scale(options)) {
    options.scale = sum->scale;
    return linear(tape, name, x, options, sum->residual);
  }
  return add(tape, name + ".sum", sum->residual, linear(tape, name, x, options), sum->scale);
}

Value LayerOperators::dense(OperatorTape& tape, const std::string& name, Value x,
                            std::int64_t inner, bool bias, std::optional<BranchSum> sum) const {
  const bool gated = config_.activation.gated;
  const std::string up = name + (gated ? ".gate_up" : ".up");
  const std::string down = name + ".down";
  const std::int64_t hidden = config_.hidden_size;
  const std::int64_t projected_width = gated ? 2 * inner : inner;
  Value projected = project(tape, up, x, projected_width, bias);
  if (gated) {
    projected = multiply_columns(tape, name + ".scaled", projected,
                                 {{inner, config_.multipliers.mlp_gate}, {inner, 1}});
  }
  if (config_.layer(index_).gate_sparsity > 0) {
    projected = cut_gates(tape, name + ".cut", projected, gate_quantile_);
  }
  // In a layer with experts the experts need more memory than the shared one.
  const ActivationNeighbours neighbours{!config_.layer(index_).experts || has_both(),
                                        config_.fp8_of(weight_name(up), projected_width, hidden),
                                        config_.fp8_of(weight_name(down), hidden, inner),
                                        config_.linear.recipe};
  const Value activated =
      config_.xielu
          ? xielu(tape, name + ".activation", name + ".xielu", projected, neighbours)
          : activation(tape, name + ".activation", projected, config_.activation, neighbours);
  return project(tape, down, activated, hidden, bias, sum);
}

Value LayerOperators::shared_expert(OperatorTape& tape, Value x,
                                    std::optional<Value> residual) const {
  const std::int64_t inner = config_.experts.shared_intermediate_size;
  const bool bias = config_.experts.shared_bias;
  if (!config_.experts.shared_gate) {
    const auto sum = residual ? std::optional(BranchSum{*residual}) : std::nullopt;
    return dense(tape, "mlp.shared", x, inner, bias, sum);
  }
  const Value output = dense(tape, "mlp.shared", x, inner, bias, std::nullopt);
  return shared_expert_gate(tape, "mlp.shared", x, output, config_.initializer_range, residual);
}

ExpertsOptions LayerOperators::experts_options() const {
  ExpertsOptions options{config_.experts, config_.activation, config_.initializer_range,
                         num_expert_layers(config_, index_),
                         num_expert_layers(config_, config_.num_layers)};
  const std::string name = fmt::format("layers.{}.mlp.", index_);
  const std::string experts_name = name + "experts.";
  options.router_trained = config_.is_trained(name + "router.weight");
  options.trained = config_.is_trained(experts_name + "gate_up.weight");
  options.up_lora = config_.lora_of(experts_name + "gate_up.weight");
  options.down_lora = config_.lora_of(experts_name + "down.weight");
  const std::int64_t inner = config_.experts.intermediate_size;
  options.up_in_fp8 = options.up_lora == nullptr &&
                      config_.linear.takes_experts(experts_name + "gate_up.weight",
                                                   config_.activation.gated ? 2 * inner : inner,
                                                   config_.hidden_size);
  options.down_in_fp8 =
      options.down_lora == nullptr &&
      config_.linear.takes_experts(experts_name + "down.weight", config_.hidden_size, inner);
  return options;
}

Value LayerOperators::mixture(OperatorTape& tape, const ExpertsInputs& x,
                              std::optional<Value> residual) const {
  const ExpertsOptions options = experts_options();
  const ExpertsParameters parameters = declare_experts(tape, "mlp", config_.hidden_size, options);
  if (config_.experts.shared_intermediate_size > 0) {
    residual = shared_expert(tape, x.rows, residual);
  }
  return experts(tape, "mlp", x, parameters, options, residual);
}

Value LayerOperators::mlp(OperatorTape& tape, Value x, std::optional<BranchSum> sum) const {
  if (!config_.layer(index_).experts) {
    return dense(tape, "mlp", x, config_.intermediate_size_of(index_), config_.mlp_bias, sum);
  }
  if (sum && sum->scale == 1.0) return mixture(tape, {x, x}, sum->residual);
  const Value output = mixture(tape, {x, x}, std::nullopt);
  return sum ? add(tape, "mlp.sum", sum->residual, output, sum->scale) : output;
}

bool LayerOperators::has_both() const {
  return config_.layer(index_).experts && config_.experts.next_to_mlp;
}

Value LayerOperators::mlp_and_experts(OperatorTape& tape, Value x, Value normed,
                                      std::optional<BranchSum> sum) const {
  const NormConfig& how = config_.norm;
  const Value output = dense(tape, "mlp", normed, config_.intermediate_size_of(index_),
                             config_.mlp_bias, std::nullopt);
  const Value of_mlp = norm(tape, "mlp.dense_post_norm", output, how);
  const Value rows = norm(tape, "mlp.experts_norm", x, how,
                          needs_amax(config_.linear.products, config_.linear.recipe));
  const Value router_rows =
      config_.experts.router_norm ? norm(tape, "mlp.router_norm", x, how) : rows;
  const Value mixed = mixture(tape, {rows, router_rows}, std::nullopt);
  const Value both = add(tape, "mlp.both", of_mlp, norm(tape, "mlp.experts_post_norm", mixed, how));
  return sum ? add(tape, "mlp.sum", sum->residual, both, sum->scale) : both;
}

Value LayerOperators::add_branch(OperatorTape& tape, const std::string& branch, double multiplier,
                                 const BranchEnd& end, Value residual) const {
  const BranchSum sum{residual, multiplier * config_.residual_multiplier};
  if (!config_.has_norm_after(index_)) return end(sum);
  const Value output = norm(tape, branch + "_post_norm", end(std::nullopt), config_.norm);
  return add(tape, branch + ".sum", residual, output, sum.scale);
}

Value LayerOperators::layer_input_branch(OperatorTape& tape, Value x) const {
  const std::int64_t width = config_.layer_input_width;
  const Value gate = project(tape, "layer_input.gate", x, width, false);
  const Value both = with_layer_input(tape, "layer_input", gate, {index_ * width, width});
  const Value product = activation(tape, "layer_input.activation", both,
                                   {config_.activation.kind, true}, {.may_peak = false});
  const Value branch = project(tape, "layer_input.output", product, config_.hidden_size, false);
  return norm(tape, "layer_input_post_norm", branch, config_.norm);
}

Value LayerOperators::finish(OperatorTape& tape, Value x) const {
  if (config_.layer_input_width > 0) {
    const Value branch = layer_input_branch(tape, x);
    x = add(tape, "layer_input.sum", x, branch);
  }
  return config_.layer_scale ? scaled_by_constant(tape, "layer_scale", x) : x;
}

LayerOperators::BranchRows LayerOperators::mixer_branch(OperatorTape& tape, Value x,
                                                        bool selects) const {
  const bool is_parallel = config_.layer(index_).parallel_mamba2;
  Value shared = norm_before(tape, "attention_norm", x);  // read by both branches where parallel
  Value mixed = mix(tape, shared);
  Value scanned = is_parallel ? scan(tape, shared) : mixed;
  if (selects) {
    mixed = select_supervised_rows(tape, "attention.supervised", mixed);
    if (is_parallel) scanned = select_supervised_rows(tape, "mamba2.supervised", scanned);
    x = select_supervised_rows(tape, "input.supervised", x);
    if (config_.has_shared_norm()) {
      shared = select_supervised_rows(tape, "attention_norm.supervised", shared);
    }
  }
  Value stream = x;
  if (is_parallel) {
    const auto end = [&](auto sum) { return project_scanned(tape, scanned, sum); };
    stream = add_branch(tape, "mamba2", config_.multipliers.mamba2_output, end, stream);
  }
  const auto end = [&](auto sum) { return project_mixed(tape, mixed, sum); };
  stream = add_branch(tape, "attention", config_.multipliers.attention(), end, stream);
  return {x, shared, stream};
}

Value LayerOperators::mlp_branch(OperatorTape& tape, const BranchRows& rows) const {
  const bool sequential = config_.residual == ResidualKind::kSequential;
  const Value read = sequential ? rows.stream : rows.input;
  const Value input = config_.has_shared_norm() ? rows.normed : norm_before(tape, "mlp_norm", read);
  const auto end = [&](auto sum) {
    return has_both() ? mlp_and_experts(tape, read, input, sum) : mlp(tape, input, sum);
  };
  return add_branch(tape, "mlp", config_.multipliers.mlp_output, end, rows.stream);
}

Value LayerOperators::record(OperatorTape& tape, Value x) const {
  if (config_.altup.exists()) return record_altup(tape, x);
  const LayerPattern pattern = config_.layer(index_);
  const bool is_last = index_ + 1 == config_.num_layers;
  const bool selects = is_last && tape.num_supervised_rows() < tape.num_rows();
  const bool selects_late = selects && last_layer_needs_all_rows(config_);
  const bool selects_early = selects && !selects_late;
  BranchRows rows{x, x, x};
  if (!pattern.no_mixer) {
    rows = mixer_branch(tape, x, selects_early);
  } else if (selects_early) {
    rows.stream = select_supervised_rows(tape, "input.supervised", x);
  }
  const Value y = finish(tape, pattern.no_mlp ? rows.stream : mlp_branch(tape, rows));
  return selects_late ? select_supervised_rows(tape, "output.supervised", y) : y;
}

ShapeTape layer_shapes(const DecoderConfig& config, std::int64_t index,
                       const MicroBatchShape& size) {
  ShapeTape tape(size);
  const bool is_expanded = config.altup.exists() && index > 0;
  LayerOperators(config, index)
      .record(tape, tape.input(is_expanded ? config.stream_width() : config.hidden_size));
  return tape;
}

}  // namespace packtrain
