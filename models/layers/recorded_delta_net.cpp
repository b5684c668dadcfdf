#include "models/layers/recorded_delta_net.h"

#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "models/block/operator_context.h"
#include "models/layers/declared_parameters.h"
#include "models/layers/mixer_conv.h"
#include "models/ops/delta_gates/delta_gates.h"
#include "models/ops/delta_rule/delta_rule.h"
#include "models/ops/delta_rule/delta_rule_bytes.h"
#include "models/ops/gated_norm/gated_norm.h"

namespace packtrain {
namespace {

struct DeltaNetParameters {
  MixerConvIds conv;
  ParameterId a_log;
  ParameterId dt_bias;
  ParameterId norm;
};

DeltaNetParameters declare_delta_net(OperatorTape& tape, const std::string& name,
                                     const DeltaNetOptions& options) {
  using Kind = Initialization::Kind;
  const DeltaNetConfig& config = options.config;
  DeltaNetParameters parameters;
  parameters.conv = declare_conv(tape, name + ".conv",
                                 {.num_channels = config.conv_channels(),
                                  .width = config.conv_width,
                                  .standard_deviation = options.standard_deviation});
  parameters.a_log =
      declare_head_numbers(tape, name + ".A_log", config.num_value_heads,
                           {Kind::kLogOfUniform, 0.0, config.min_decay, config.max_decay});
  const bool has_steps = config.max_step > 0;
  parameters.dt_bias = declare_head_numbers(
      tape, name + ".dt_bias", config.num_value_heads,
      {has_steps ? Kind::kInverseSoftplus : Kind::kOnes, 0.0, config.min_step, config.max_step});
  parameters.norm = declare_scale(tape, name + ".norm.weight", {config.value_head_dim}, 0);
  return parameters;
}

constexpr const char* kDeltaRuleName = "the gated delta rule";

// The operators of one mixer. Each function records one of them.
class DeltaNet {
 public:
  DeltaNet(OperatorTape& tape, std::string name, Value qkvz, Value ba,
           const DeltaNetOptions& options)
      : name_(std::move(name)),
        config_(options.config),
        parameters_(declare_delta_net(tape, name_, options)),
        qkvz_(qkvz),
        ba_(ba),
        num_rows_(tape.shape(qkvz).num_rows),
        dtype_(tape.shape(qkvz).dtype),
        mixed_(tape.value(ValueKind::kActivationOutput, name_ + ".conv",
                          {num_rows_, config_.conv_channels(), dtype_})) {}

  // Queries, keys and values of the projection, convolved.
  void record_convolution(OperatorTape& tape) const {
    Operator step;
    step.inputs = {qkvz_};
    step.outputs = {mixed_};
    step.needs = {qkvz_};
    step.multiply_adds.of_rows = num_rows_ * config_.conv_channels() * config_.conv_width;
    step.forward = [self = *this](OperatorContext& run) {
      run.set(self.mixed_, causal_conv_forward(self.conv_rows(run.get(self.qkvz_)),
                                               self.parameters_.conv.of(run),
                                               conv_options(run, kDeltaRuleName)));
    };
    step.backward = [self = *this](OperatorContext& run) {
      // The gate's columns are written.
      causal_conv_backward(run.gradient(self.mixed_), self.conv_rows(run.get(self.qkvz_)),
                           self.parameters_.conv.of(run), conv_options(run, kDeltaRuleName),
                           self.conv_rows(run.gradient(self.qkvz_)));
    };
    tape.record(std::move(step));
  }

  // Returns the output of the rule. Its backward runs that of the gates too, because it has the
  // gradients of queries, keys and values as separate tensors.
  Value record_rule(OperatorTape& tape) {
    heads_ = tape.value(ValueKind::kNormOutput, name_ + ".unit_qk",
                        {num_rows_, 2 * config_.key_width(), dtype_});
    gates_ = tape.value(ValueKind::kNormOutput, name_ + ".gates",
                        {num_rows_, 2 * config_.num_value_heads, c10::kFloat});
    Operator prepare;
    prepare.inputs = {mixed_, ba_};
    prepare.outputs = {heads_, gates_};
    prepare.forward = [self = *this](OperatorContext& run) {
      DeltaRuleInputs in =
          delta_gates_forward(run.get(self.mixed_), run.get(self.ba_), self.gates(run));
      run.set_all(self.heads_, {std::move(in.q), std::move(in.k)});
      run.set_all(self.gates_, {std::move(in.g), std::move(in.beta)});
    };
    tape.record(std::move(prepare));

    const ValueShape output = {num_rows_, config_.value_width(), dtype_};
    rule_ = tape.value(ValueKind::kAttentionOutput, name_, output);
    Operator step;
    step.inputs = {mixed_, heads_, gates_};
    step.outputs = {rule_};
    step.needs = {mixed_, ba_, heads_, gates_};
    // Three products of a state with a vector for each row.
    step.multiply_adds.of_rows = 3 * output.numel() * config_.key_head_dim;
    step.forward = [self = *this](OperatorContext& run) {
      const at::Tensor o = delta_rule_forward(self.rule_inputs(run), self.rule_options(run));
      run.set(self.rule_, o.view({o.size(0), self.config_.value_width()}));
    };
    step.backward = [self = *this](OperatorContext& run) { self.rule_backward(run); };
    step.memory = [self = *this, whole = tape.shape(qkvz_), output](const MicroBatchShape& size,
                                                                    const RecomputePolicy& policy) {
      return self.rule_memory(whole, output, size, policy);
    };
    tape.record(std::move(step));
    return rule_;
  }

  // The gated norm of the rule's output.
  Value record_norm(OperatorTape& tape) const {
    const Value y = tape.value(ValueKind::kNormOutput, name_ + ".norm", tape.shape(rule_));
    const Value statistics = tape.value(ValueKind::kStatistics, name_ + ".norm_statistics",
                                        {num_rows_, config_.num_value_heads, c10::kFloat});
    Operator step;
    step.inputs = {rule_, qkvz_};
    step.outputs = {y, statistics};
    step.needs = {rule_, qkvz_, statistics};
    step.recomputes_output = true;
    step.forward = [=, self = *this](OperatorContext& run) {
      GatedNormOutput output =
          gated_norm_forward(self.by_head(run.get(self.rule_)), self.gate(run.get(self.qkvz_)),
                             run.parameter(self.parameters_.norm), self.config_.norm_epsilon);
      run.set(y, output.y.view({output.y.size(0), self.config_.value_width()}));
      run.set(statistics, std::move(output.inverse_rms));
    };
    step.backward = [=, self = *this](OperatorContext& run) {
      self.norm_backward(run, y, run.get(statistics));
    };
    tape.record(std::move(step));
    return y;
  }

 private:
  at::Tensor conv_rows(const at::Tensor& qkvz) const {
    return qkvz.narrow(1, 0, config_.conv_channels());
  }
  at::Tensor by_head(const at::Tensor& rows) const {
    return rows.view({rows.size(0), config_.num_value_heads, config_.value_head_dim});
  }
  at::Tensor gate(const at::Tensor& qkvz) const {
    return by_head(qkvz.narrow(1, config_.conv_channels(), config_.value_width()));
  }
  DeltaGates gates(const OperatorContext& run) const {
    return {run.parameter(parameters_.a_log), run.parameter(parameters_.dt_bias),
            config_.num_key_heads, config_.key_head_dim, config_.beta_multiplier};
  }
  DeltaRuleInputs rule_inputs(OperatorContext& run) const {
    const std::vector<at::Tensor> heads = run.get_all(heads_);
    const std::vector<at::Tensor> numbers = run.get_all(gates_);
    return {heads.at(0), heads.at(1),
            delta_values(run.get(mixed_), config_.num_value_heads, gates(run)), numbers.at(0),
            numbers.at(1)};
  }
  DeltaRuleOptions rule_options(const OperatorContext& run) const {
    return {sequences_of(run, kDeltaRuleName),
            1.0 / std::sqrt(static_cast<double>(config_.key_head_dim)),
            &run.batch().state.delta_rule_tables};
  }

  void rule_backward(OperatorContext& run) const {
    const DeltaRuleInputs grads =
        delta_rule_backward(by_head(run.gradient(rule_)), rule_inputs(run), rule_options(run));
    DeltaGatesGradients out =
        delta_gates_backward(grads, run.get(mixed_), run.get(ba_), gates(run));
    run.set_gradient(mixed_, std::move(out.mixed));
    run.set_gradient(ba_, std::move(out.ba));
  }

  // Allocates the gradient of the whole projection. The convolution's backward writes the rest.
  void norm_backward(OperatorContext& run, Value y, const at::Tensor& inverse_rms) const {
    const at::Tensor mixed = run.get(rule_);
    const at::Tensor rows = run.get(qkvz_);
    const bool recomputes = run.is_recompute_requested(y);
    const at::Tensor again = recomputes ? at::empty_like(mixed) : at::Tensor();
    const at::Tensor whole = at::empty_like(rows);
    const at::Tensor grad = gated_norm_backward(
        by_head(run.gradient(y)), {by_head(mixed), gate(rows), inverse_rms},
        run.parameter(parameters_.norm), gate(whole), recomputes ? by_head(again) : again);
    run.set_gradient(rule_, grad.view({grad.size(0), config_.value_width()}));
    run.set_gradient(qkvz_, whole);
    if (recomputes) run.set(y, again);
  }

  BackwardMemory rule_memory(const ValueShape& whole, const ValueShape& output,
                             const MicroBatchShape& size, const RecomputePolicy& policy) const {
    const std::int64_t mixed = ValueShape{num_rows_, config_.conv_channels(), dtype_}.bytes();
    const std::int64_t heads = ValueShape{num_rows_, 2 * config_.key_width(), dtype_}.bytes();
    const bool mixes_again = !policy.keeps(ValueKind::kActivationOutput);
    const bool norms_again = !policy.keeps(ValueKind::kNormOutput);
    // The rule's backward frees the workspace before the gates' backward makes the gradient.
    const std::int64_t after_rule = std::max(size.on_gpu ? workspace(size) : 0, mixed);
    return {"delta rule backward",
            {{"gradient of the delta rule's output", output.bytes()},
             {"gradient of the delta rule's projection", whole.bytes()},
             {"gradients of the delta rule's heads", mixed, true},
             {"delta rule's workspace, or gradient of its convolution", after_rule, true},
             {"convolution again", mixes_again ? mixed : 0},
             {"normalised queries and keys again", norms_again ? heads : 0}}};
  }

  std::int64_t workspace(const MicroBatchShape& size) const {
    const DeltaRuleSizes sizes{.num_rows = num_rows_,
                               .num_sequences = size.num_sequences,
                               .num_key_heads = config_.num_key_heads,
                               .num_heads = config_.num_value_heads,
                               .key_dim = config_.key_head_dim,
                               .value_dim = config_.value_head_dim};
    const DataType type = dtype_ == at::kBFloat16 ? DataType::kBFloat16 : DataType::kFloat32;
    return delta_rule_workspace_bytes(sizes, type, /*backward=*/true, size.shared_bytes);
  }

  std::string name_;
  DeltaNetConfig config_;
  DeltaNetParameters parameters_;
  Value qkvz_;
  Value ba_;
  std::int64_t num_rows_;
  c10::ScalarType dtype_;
  Value mixed_;  // queries, keys and values after the convolution
  Value heads_;  // queries and keys of length 1
  Value gates_;  // decays and strengths
  Value rule_;
};

}  // namespace

Value delta_net(OperatorTape& tape, const std::string& name, Value qkvz, Value ba,
                const DeltaNetOptions& options) {
  DeltaNet net(tape, name, qkvz, ba, options);
  net.record_convolution(tape);
  net.record_rule(tape);
  return net.record_norm(tape);
}

}  // namespace packtrain
