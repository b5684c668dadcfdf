#include "models/layers/recorded_experts.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "framework/core/error.h"
#include "models/block/operator_context.h"
#include "models/layers/declared_parameters.h"
#include "models/layers/recorded_router.h"
#include "models/ops/encoded_weight.h"
#include "models/ops/experts/expert_linear.h"
#include "models/ops/experts/grouped_glu_gemm.h"

namespace packtrain {
namespace {

// A projection of all experts.
struct ProjectionIds {
  ParameterId weight;
  ParameterId bias;
  LoraParameters lora;
  std::shared_ptr<const LoraModules> modules;  // of the low-rank update, or null
  bool trained = true;
  std::int64_t num_codes = 0;  // of the weight in 8 bits, or 0
  std::optional<Value> input_weights = std::nullopt;

  std::int64_t rank() const { return modules == nullptr ? 0 : total_rank(*modules); }
  // Decodes the weight, whose value lasts until the next product of another weight. So call it
  // after get(), which may run other products.
  ExpertProjection of(OperatorContext& run) const {
    const at::Tensor of_inputs = run.get(input_weights);
    decode_weight(run.parameter(weight));
    ExpertProjection projection{run.find(weight), run.find(bias), run.options().gemm_timing};
    projection.in_fp8 = num_codes > 0;
    projection.input_weights = of_inputs;
    if (modules != nullptr && !run.batch().without_adapter) {
      projection.lora = {run.find(lora.a), run.find(lora.b.front()), modules->front().scale};
    }
    return projection;
  }
  // Of rows that have a copy for each of their experts.
  MultiplyAdds multiply_adds(std::int64_t num_copies, std::int64_t in, std::int64_t out) const {
    MultiplyAdds sums;
    (trained ? sums.of_rows : sums.of_frozen_rows) = num_copies * in * out;
    sums.of_rows += num_copies * rank() * (in + out);
    return sums;
  }
  // Both low ranks of all copies that backward computes.
  BackwardBuffer low_ranks(const ValueShape& copies) const {
    return {"low ranks of the experts' update",
            2 * ValueShape{copies.num_rows, rank(), copies.dtype}.bytes()};
  }
  // 8-bit copies of the weight and of a gradient's rows, which exist before tensors of `later`
  // bytes.
  BackwardBuffer codes(std::int64_t num_rows_codes, std::int64_t later) const {
    const std::int64_t bytes = num_codes == 0 ? 0 : num_codes + num_rows_codes;
    return {"8-bit copies of the experts", std::max<std::int64_t>(0, bytes - later)};
  }
};

// The first projection of each expert and the activation after it.
struct HiddenValues {
  Value u;
  Value h;  // only forward reads it; backward recomputes it
};

HiddenValues record_dispatch(OperatorTape& tape, const std::string& name, Value x,
                             const RoutedValues& routed, const ProjectionIds& projection,
                             const ExpertsOptions& options) {
  const Activation activation = options.activation;
  const ValueShape in = tape.shape(x);
  const std::int64_t num_copies = in.num_rows * options.experts.experts_per_token;
  const std::int64_t inner = options.experts.intermediate_size;
  const std::int64_t projected = activation.gated ? 2 * inner : inner;
  const HiddenValues hidden{
      tape.value(ValueKind::kProjection, name + ".gate_up", {num_copies, projected, in.dtype}),
      tape.value(ValueKind::kActivationOutput, name + ".activation",
                 {num_copies, inner, in.dtype})};
  const ValueShape copies{num_copies, in.width, in.dtype};
  const std::int64_t projected_bytes = tape.shape(hidden.u).bytes();
  Operator step;
  step.inputs = {x, routed.order, routed.ends};
  if (projection.input_weights) step.inputs.push_back(*projection.input_weights);
  step.outputs = {hidden.u, hidden.h};
  step.needs = step.inputs;
  step.multiply_adds = projection.multiply_adds(num_copies, in.width, projected);
  step.forward = [=](OperatorContext& run) {
    const at::Tensor rows = run.get(x);
    const TokenPermutation order = routed.sorted(run);
    ExpertsHidden made = dispatch_forward(rows, order, projection.of(run), activation, run.amax(x));
    run.set(hidden.u, std::move(made.u));
    run.set(hidden.h, std::move(made.h), std::move(made.h_amax));
  };
  step.backward = [=](OperatorContext& run) {
    const at::Tensor grad = run.gradient(hidden.u);
    const TokenPermutation order = routed.sorted(run);
    const ExpertProjection weights = projection.of(run);
    const at::Tensor low = dispatch_backward_low_rank(grad, order, weights);
    run.set_gradient(x, dispatch_backward_input(grad, low, order, weights, run.gradient(x),
                                                run.gradient_amax(hidden.u)));
    run.when_available(x, [=](const at::Tensor& rows) {
      dispatch_backward_weight(grad, low, rows, order, weights);
    });
  };
  step.memory = [=](const MicroBatchShape&, const RecomputePolicy&) -> BackwardMemory {
    // The update's part of the gradient exists before the sum over a row's copies.
    const std::int64_t more = projection.rank() == 0 ? 0 : copies.bytes() - in.bytes();
    return {"experts' first projection backward",
            {{"gradient of the experts' first projection", projected_bytes},
             {"experts' inputs, by expert", copies.bytes() + more},
             {"gradient of the MLP's input", in.bytes()},
             projection.codes(num_copies * projected, in.bytes()),
             projection.low_ranks(copies)}};
  };
  tape.record(std::move(step));
  return hidden;
}

// Backward recomputes the activation.
BackwardMemory combine_memory(const ValueShape& u, const ValueShape& h, const ValueShape& copies,
                              const ProjectionIds& projection, const Activation& activation,
                              const MicroBatchShape& size) {
  const bool keeps_gradient = projection.rank() > 0 || projection.num_codes > 0 ||
                              grouped_glu_gemm_materializes_grad(size.on_gpu, size.compute,
                                                                 activation, copies.width, h.width);
  return {"experts' second projection backward",
          {{"gradient of the experts' outputs, by expert", copies.bytes()},
           {"gradient of the experts' activation", keeps_gradient ? h.bytes() : 0},
           {"gradient of the experts' first projection", u.bytes()},
           {"experts' activation again", h.bytes()},
           projection.codes(copies.numel(), u.bytes() + h.bytes()),
           projection.low_ranks(copies)}};
}

Value record_combine(OperatorTape& tape, const std::string& name, const HiddenValues& hidden,
                     const ValueShape& out, const RoutedValues& routed,
                     const ProjectionIds& projection, const ExpertsOptions& options,
                     std::optional<Value> residual) {
  const Activation activation = options.activation;
  const bool next_to_mlp = options.experts.next_to_mlp;
  const Value y = tape.value(ValueKind::kProjection, name, out);
  const ValueShape u_shape = tape.shape(hidden.u);
  const ValueShape h_shape = tape.shape(hidden.h);
  const ValueShape copies{h_shape.num_rows, out.width, out.dtype};
  const auto output_weights = [=](OperatorContext& run) {
    return projection.input_weights ? at::Tensor() : run.get(routed.weights);
  };
  Operator step;
  step.inputs = {hidden.h, routed.weights, routed.order, routed.ends};
  step.residual = residual;
  step.outputs = {y};
  step.needs = {hidden.u, routed.weights, routed.order, routed.ends};
  step.multiply_adds = projection.multiply_adds(h_shape.num_rows, h_shape.width, out.width);
  step.forward = [=](OperatorContext& run) {
    const at::Tensor h = run.get(hidden.h);
    const at::Tensor weights = output_weights(run);
    const TokenPermutation order = routed.sorted(run);
    const at::Tensor added = run.get(residual);
    run.set(y, combine_forward(h, weights, order, projection.of(run), added, run.amax(hidden.h)));
  };
  step.backward = [=](OperatorContext& run) {
    const at::Tensor grad = run.gradient(y);
    if (residual) run.add_gradient(*residual, grad);
    const at::Tensor u = run.get(hidden.u);
    run.release(hidden.h);  // set when u had to be recomputed
    const at::Tensor weights = output_weights(run);
    const TokenPermutation order = routed.sorted(run);
    CombineGradients gradients =
        combine_backward(grad, u, weights, order, projection.of(run), activation);
    run.set_gradient(hidden.u, std::move(gradients.u), std::move(gradients.u_amax));
    run.set_gradient(routed.weights, std::move(gradients.weights));
  };
  step.memory = [=](const MicroBatchShape& size, const RecomputePolicy&) {
    BackwardMemory memory = combine_memory(u_shape, h_shape, copies, projection, activation, size);
    if (next_to_mlp) memory.buffers.push_back({"gradient of the MLP next to experts", out.bytes()});
    return memory;
  };
  tape.record(std::move(step));
  return y;
}

}  // namespace

ExpertsParameters declare_experts(OperatorTape& tape, const std::string& name, std::int64_t width,
                                  const ExpertsOptions& options) {
  const ExpertsConfig& config = options.experts;
  const std::int64_t count = config.num_experts;
  const std::int64_t inner = config.intermediate_size;
  const std::int64_t projected = options.activation.gated ? 2 * inner : inner;
  const double deviation = options.standard_deviation;
  if (config.weighted_inputs && config.bias) {
    throw Error(ErrorCategory::kInternal, name + ": experts with weighted inputs have biases",
                "Give each of them weights of its output, or no bias.");
  }
  const std::string up = name + ".experts.gate_up";
  const std::string down = name + ".experts.down";
  ExpertsParameters parameters;
  parameters.router = declare_weight(tape, name + ".router.weight", {count, width}, deviation);
  parameters.router_bias = declare_bias(tape, name + ".router.bias", {count}, config.router_bias);
  if (config.choice_bias) {
    parameters.choice_bias = declare_constant(tape, name + ".router.choice_bias", {count});
  }
  if (config.expert_scale) {
    parameters.expert_scale =
        declare_scale(tape, name + ".router.expert_scale", {count}, /*weight_offset=*/0);
  }
  parameters.up = declare_decodable_weight(tape, up + ".weight", {count, projected, width},
                                           deviation, options.up_in_fp8);
  parameters.up_bias = declare_bias(tape, up + ".bias", {count, projected}, config.bias);
  parameters.down = declare_decodable_weight(tape, down + ".weight", {count, width, inner},
                                             deviation, options.down_in_fp8);
  parameters.down_bias = declare_bias(tape, down + ".bias", {count, width}, config.bias);
  if (options.up_lora != nullptr) {
    parameters.up_lora = declare_expert_lora(tape, up, options.up_lora->front(), count, width);
  }
  if (options.down_lora != nullptr) {
    parameters.down_lora =
        declare_expert_lora(tape, down, options.down_lora->front(), count, inner);
  }
  return parameters;
}

Value experts(OperatorTape& tape, const std::string& name, const ExpertsInputs& x,
              const ExpertsParameters& parameters, const ExpertsOptions& options,
              std::optional<Value> residual) {
  RoutedValues routed = record_router(tape, name, x.router_rows, parameters, options);
  if (options.experts.expert_scale) {
    routed.weights = scaled_weights(tape, name, routed, parameters.expert_scale);
  }
  const std::int64_t width = tape.shape(x.rows).width;
  const std::int64_t inner = options.experts.intermediate_size;
  const std::int64_t down_codes = options.experts.num_experts * inner * width;
  const std::int64_t up_codes = options.activation.gated ? 2 * down_codes : down_codes;
  std::optional<Value> input_weights;
  if (options.experts.weighted_inputs) input_weights = routed.weights;
  const ProjectionIds up{parameters.up,   parameters.up_bias, parameters.up_lora,
                         options.up_lora, options.trained,    options.up_in_fp8 ? up_codes : 0,
                         input_weights};
  const ProjectionIds down{parameters.down,      parameters.down_bias,
                           parameters.down_lora, options.down_lora,
                           options.trained,      options.down_in_fp8 ? down_codes : 0,
                           input_weights};
  const HiddenValues hidden = record_dispatch(tape, name + ".experts", x.rows, routed, up, options);
  return record_combine(tape, name + ".experts.down", hidden, tape.shape(x.rows), routed, down,
                        options, residual);
}

}  // namespace packtrain
