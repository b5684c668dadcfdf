#include "models/layers/recorded_mamba2.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "models/block/operator_context.h"
#include "models/layers/declared_parameters.h"
#include "models/layers/mixer_conv.h"
#include "models/ops/gated_norm/product_norm.h"
#include "models/ops/mamba2/ssd.h"
#include "models/ops/mamba2/ssd_bytes.h"
#include "models/ops/mamba2/steps.h"

namespace packtrain {
namespace {

constexpr const char* kMamba2Name = "the state space model of Mamba-2";

struct Mamba2Parameters {
  MixerConvIds conv;
  ParameterId a_log;
  ParameterId skip;
  ParameterId dt_bias;
  ParameterId norm;
};

// Initial values are those of Mamba-2: decays of 1 to 16, steps of 0.001 to 0.1.
Mamba2Parameters declare_mamba2(OperatorTape& tape, const std::string& name,
                                const Mamba2Options& options) {
  using Kind = Initialization::Kind;
  const Mamba2Config& config = options.config;
  const std::int64_t heads = config.num_heads;
  Mamba2Parameters parameters;
  parameters.conv = declare_conv(
      tape, name + ".conv",
      {config.conv_channels(), config.conv_width, config.conv_bias, options.standard_deviation});
  parameters.a_log =
      declare_head_numbers(tape, name + ".A_log", heads, {Kind::kLogOfUniform, 0.0, 1, 16});
  parameters.skip = declare_head_numbers(tape, name + ".D", heads, {Kind::kOnes});
  parameters.dt_bias = declare_head_numbers(tape, name + ".dt_bias", heads,
                                            {Kind::kInverseSoftplus, 0.0, 0.001, 0.1});
  if (config.has_norm) {
    parameters.norm = declare_scale(tape, name + ".norm.weight", {config.width()}, 0);
  }
  return parameters;
}

// The operators of one mixer. Each function records one of them.
class Mamba2 {
 public:
  Mamba2(OperatorTape& tape, std::string name, Value projection, const Mamba2Options& options)
      : name_(std::move(name)),
        config_(options.config),
        parameters_(declare_mamba2(tape, name_, options)),
        projection_(projection),
        whole_(tape.shape(projection)),
        mixed_(tape.value(ValueKind::kActivationOutput, name_ + ".conv", conv_shape())) {}

  // x, B and C of the projection, convolved. Its backward is the last of the mixer's.
  void record_convolution(OperatorTape& tape) const {
    Operator step;
    step.inputs = {projection_};
    step.outputs = {mixed_};
    step.needs = {projection_};
    step.multiply_adds.of_rows = conv_shape().numel() * config_.conv_width;
    step.forward = [self = *this](OperatorContext& run) {
      run.set(self.mixed_,
              causal_conv_forward(self.conv_rows(run.get(self.projection_)),
                                  self.parameters_.conv.of(run), conv_options(run, kMamba2Name)));
    };
    step.backward = [self = *this](OperatorContext& run) {
      // The other columns are written.
      causal_conv_backward(run.gradient(self.mixed_), self.conv_rows(run.get(self.projection_)),
                           self.parameters_.conv.of(run), conv_options(run, kMamba2Name),
                           self.conv_rows(run.gradient(self.projection_)));
    };
    tape.record(std::move(step));
  }

  void record_model(OperatorTape& tape) {
    const ValueShape output = {whole_.num_rows, config_.width(), whole_.dtype};
    output_ = tape.value(ValueKind::kAttentionOutput, name_, output);
    Operator step;
    step.inputs = {mixed_, projection_};
    step.outputs = {output_};
    step.needs = {mixed_, projection_};
    // A row is added to a state and multiplied by it.
    step.multiply_adds.of_rows = 2 * output.numel() * config_.state_dim;
    step.forward = [self = *this](OperatorContext& run) {
      const at::Tensor y = ssd_forward(self.model_inputs(run), run.parameter(self.parameters_.skip),
                                       self.model_options(run));
      run.set(self.output_, y.view({y.size(0), self.config_.width()}));
    };
    step.backward = [self = *this](OperatorContext& run) { self.model_backward(run); };
    step.memory = [self = *this, output](const MicroBatchShape& size,
                                         const RecomputePolicy& policy) {
      return self.model_memory(output, size, policy);
    };
    tape.record(std::move(step));
  }

  // The norm of the gated output. Its backward allocates the gradient of the whole projection.
  Value record_norm(OperatorTape& tape) const {
    const Value y = tape.value(ValueKind::kNormOutput, name_ + ".norm", tape.shape(output_));
    Operator step;
    step.inputs = {output_, projection_};
    step.outputs = {y};
    step.needs = {output_, projection_};
    step.recomputes_output = true;
    step.forward = [=, self = *this](OperatorContext& run) {
      run.set(y, product_norm_forward(run.get(self.output_), self.gate(run.get(self.projection_)),
                                      run.parameter(self.parameters_.norm), self.norm_options()));
    };
    step.backward = [=, self = *this](OperatorContext& run) { self.norm_backward(run, y); };
    step.memory = [self = *this](const MicroBatchShape& size, const RecomputePolicy& policy) {
      return self.norm_memory(size.on_gpu, policy);
    };
    tape.record(std::move(step));
    return y;
  }

  // The gated output without a norm. Its backward allocates as that of record_norm does.
  Value record_gate(OperatorTape& tape) const {
    const Value y = tape.value(ValueKind::kNormOutput, name_ + ".gate", tape.shape(output_));
    Operator step;
    step.inputs = {output_, projection_};
    step.outputs = {y};
    step.needs = {output_, projection_};
    step.forward = [=, self = *this](OperatorContext& run) {
      run.set(y,
              gated_product_forward(run.get(self.output_), self.gate(run.get(self.projection_))));
    };
    step.backward = [=, self = *this](OperatorContext& run) { self.gate_backward(run, y); };
    step.memory = [self = *this](const MicroBatchShape& size, const RecomputePolicy&) {
      return self.gate_memory(size.on_gpu);
    };
    tape.record(std::move(step));
    return y;
  }

 private:
  ValueShape conv_shape() const { return {whole_.num_rows, config_.conv_channels(), whole_.dtype}; }
  ProductNormOptions norm_options() const { return {config_.norm_epsilon, config_.norm_groups}; }
  at::Tensor gate(const at::Tensor& rows) const { return rows.narrow(1, 0, config_.width()); }
  at::Tensor conv_rows(const at::Tensor& rows) const {
    return rows.narrow(1, config_.width(), config_.conv_channels());
  }
  at::Tensor step_rows(const at::Tensor& rows) const {
    return rows.narrow(1, config_.width() + config_.conv_channels(), config_.num_heads);
  }
  // The columns of rows [T, H P + 2 G N] by heads and groups.
  SsdInputs split(const at::Tensor& rows) const {
    const std::int64_t width = config_.width();
    const std::int64_t groups = config_.num_groups * config_.state_dim;
    const auto part = [&](std::int64_t begin, std::int64_t count, std::int64_t size) {
      return rows.narrow(1, begin, count * size).unflatten(1, at::IntArrayRef{count, size});
    };
    return {part(0, config_.num_heads, config_.head_dim),
            part(width, config_.num_groups, config_.state_dim),
            part(width + groups, config_.num_groups, config_.state_dim),
            {},
            {}};
  }
  SsdStepParameters step_parameters(const OperatorContext& run) const {
    return {run.parameter(parameters_.a_log), run.parameter(parameters_.dt_bias), config_.min_step,
            config_.max_step};
  }
  SsdInputs model_inputs(OperatorContext& run) const {
    SsdInputs in = split(run.get(mixed_));
    SsdSteps steps = ssd_steps_forward(step_rows(run.get(projection_)), step_parameters(run));
    in.steps = std::move(steps.steps);
    in.g = std::move(steps.g);
    return in;
  }
  SsdOptions model_options(const OperatorContext& run) const {
    return {sequences_of(run, kMamba2Name), &run.batch().state.delta_rule_tables};
  }

  void model_backward(OperatorContext& run) const {
    const SsdInputs in = model_inputs(run);
    const at::Tensor grad_mixed = at::empty_like(run.get(mixed_));
    SsdInputs grads = split(grad_mixed);
    grads.steps = at::empty_like(in.steps);
    grads.g = at::empty_like(in.g);
    ssd_backward(run.gradient(output_).view(in.x.sizes()), in, run.parameter(parameters_.skip),
                 model_options(run), grads);
    run.set_gradient(mixed_, grad_mixed);
    ssd_steps_backward({grads.steps, grads.g}, step_rows(run.get(projection_)),
                       step_parameters(run), step_rows(run.gradient(projection_)));
  }

  void norm_backward(OperatorContext& run, Value y) const {
    const at::Tensor mixed = run.get(output_);
    const at::Tensor rows = run.get(projection_);
    const bool recomputes = run.is_recompute_requested(y);
    const at::Tensor again = recomputes ? at::empty_like(mixed) : at::Tensor();
    const at::Tensor whole = at::empty_like(rows);
    run.set_gradient(output_, product_norm_backward(run.gradient(y), mixed, gate(rows),
                                                    run.parameter(parameters_.norm), norm_options(),
                                                    gate(whole), again));
    run.set_gradient(projection_, whole);
    if (recomputes) run.set(y, again);
  }

  void gate_backward(OperatorContext& run, Value y) const {
    const at::Tensor grad = run.gradient(y);
    const at::Tensor mixed = run.get(output_);
    const at::Tensor rows = run.get(projection_);
    const at::Tensor whole = at::empty_like(rows);
    run.set_gradient(output_, gated_product_backward(grad, mixed, gate(rows), gate(whole)));
    run.set_gradient(projection_, whole);
  }

  BackwardMemory model_memory(const ValueShape& output, const MicroBatchShape& size,
                              const RecomputePolicy& policy) const {
    const std::int64_t mixed = conv_shape().bytes();
    // On the CPU libtorch's operators make the gradient of the convolution.
    const std::int64_t workspace = size.on_gpu ? ssd_workspace(size) : mixed;
    const bool mixes_again = !policy.keeps(ValueKind::kActivationOutput);
    return {"state space model backward",
            {{"gradient of the state space model's output", output.bytes()},
             {"gradient of the state space model's projection", whole_.bytes()},
             {"gradients of the state space model's inputs", mixed, true},
             {"steps, decays and their gradients", step_bytes(), true},
             {"state space model's workspace, or gradient of its convolution", workspace, true},
             {"convolution again", mixes_again ? mixed : 0}}};
  }

  std::int64_t ssd_workspace(const MicroBatchShape& size) const {
    const SsdSizes sizes{.num_rows = whole_.num_rows,
                         .num_groups = config_.num_groups,
                         .num_heads = config_.num_heads,
                         .head_dim = config_.head_dim,
                         .state_dim = config_.state_dim};
    const DataType type = whole_.dtype == at::kBFloat16 ? DataType::kBFloat16 : DataType::kFloat32;
    return ssd_workspace_bytes(sizes, type, size.shared_bytes);
  }

  // Numbers of a row and head: steps, decays, and what the backward of both computes.
  std::int64_t step_bytes() const {
    constexpr std::int64_t kNumbers = 4;
    return kNumbers * static_cast<std::int64_t>(sizeof(float)) * whole_.num_rows *
           config_.num_heads;
  }

  // Numbers of float32 that the norm's backward has of each element. A kernel has none.
  BackwardMemory norm_memory(bool on_gpu, const RecomputePolicy& policy) const {
    const std::int64_t numbers = on_gpu ? 0 : 9;
    const ValueShape output = {whole_.num_rows, config_.width(), whole_.dtype};
    const std::int64_t wide = static_cast<std::int64_t>(sizeof(float)) * output.numel();
    const bool again = !policy.keeps(ValueKind::kNormOutput);
    return {"gated norm backward",
            {{"gradients of the gated norm", 2 * output.bytes()},
             {"gradient of the state space model's projection", whole_.bytes()},
             {"gated norm's products", numbers * wide, true},
             {"gated norm again", again ? output.bytes() : 0}}};
  }

  BackwardMemory gate_memory(bool on_gpu) const {
    const std::int64_t numbers = on_gpu ? 0 : 4;  // float32, of libtorch's operators
    const std::int64_t wide =
        static_cast<std::int64_t>(sizeof(float)) * whole_.num_rows * config_.width();
    const std::int64_t bytes = ValueShape{whole_.num_rows, config_.width(), whole_.dtype}.bytes();
    return {"gate backward",
            {{"gradients of the gated output", 2 * bytes},
             {"gradient of the state space model's projection", whole_.bytes()},
             {"gate's products", numbers * wide, true}}};
  }

  std::string name_;
  Mamba2Config config_;
  Mamba2Parameters parameters_;
  Value projection_;
  ValueShape whole_;  // of the projection
  Value mixed_;       // x, B and C after the convolution
  Value output_;      // of the state space model
};

}  // namespace

Value mamba2(OperatorTape& tape, const std::string& name, Value projection,
             const Mamba2Options& options) {
  Mamba2 mixer(tape, name, projection, options);
  mixer.record_convolution(tape);
  mixer.record_model(tape);
  return options.config.has_norm ? mixer.record_norm(tape) : mixer.record_gate(tape);
}

}  // namespace packtrain
