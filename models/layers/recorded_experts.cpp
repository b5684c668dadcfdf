#include "models/layers/recorded_experts.h"

#include <utility>

#include "models/block/batch.h"
#include "models/layers/recorded_operators.h"
#include "models/layers/routing_statistics.h"
#include "models/ops/experts/shared_expert_gate.h"
#include "models/ops/linear/linear.h"

namespace packtrain {
namespace {

// Recorded values of a routing.
struct RoutedValues {
  Value weights;
  Value choice;         // experts
  Value probabilities;  // undefined where not needed
  Value order;          // permuted rows
  Value ends;

  Routing routing(OperatorTape& tape) const {
    return {tape.get(weights), tape.get(choice), tape.get(probabilities)};
  }
  TokenPermutation sorted(OperatorTape& tape) const { return {tape.get(order), tape.get(ends)}; }
};

RoutedValues routed_values(OperatorTape& tape, const std::string& name) {
  const auto number = [&](const char* what) {
    return tape.value(ValueKind::kStatistics, name + what);
  };
  return {number(".router.weights"), number(".router.experts"), number(".router.probabilities"),
          number(".order"), number(".order.ends")};
}

RoutedValues record_router(OperatorTape& tape, const std::string& name, Value x,
                           const ExpertsWeights& weights, const ExpertsOptions& options,
                           const DeviceBatch& batch) {
  const RoutedValues routed = routed_values(tape, name);
  const RoutingOptions how = routing_options(options.experts);
  const Parameter& router = *weights.router;
  const Parameter* bias = weights.router_bias;
  OperatorTape::Operator step;
  step.outputs = {routed.weights, routed.choice, routed.probabilities, routed.order, routed.ends};
  step.needs = {x, routed.weights, routed.choice, routed.probabilities};
  step.forward = [=, &tape, &batch, &router] {
    Routing routing = route(tape.get(x), router, bias, how);
    write_routing(batch, routing, options.experts, options.layer, options.num_layers,
                  options.all_rows);
    TokenPermutation order = sort_tokens_by_expert(routing.experts, options.experts.num_experts);
    tape.set(routed.weights, std::move(routing.weights));
    tape.set(routed.choice, std::move(routing.experts));
    tape.set(routed.probabilities, std::move(routing.probabilities));
    tape.set(routed.order, std::move(order.permuted_rows));
    tape.set(routed.ends, std::move(order.ends));
  };
  step.backward = [=, &tape, &batch, &router] {
    const at::Tensor grad =
        routing_backward(tape.gradient(routed.weights), auxiliary_gradient(batch),
                         routed.routing(tape), options.experts.num_experts, how)
            .to(router.value.scalar_type());
    tape.set_gradient(x, linear_backward_input(grad, router, tape.gradient(x)));
    tape.when_available(
        x, [=, &router](const at::Tensor& in) { linear_backward_weight(grad, in, router, bias); });
  };
  tape.record(std::move(step));
  return routed;
}

struct HiddenValues {
  Value u;
  Value h;  // only forward reads it; backward recomputes it
};

HiddenValues record_dispatch(OperatorTape& tape, const std::string& name, Value x,
                             const RoutedValues& routed, const ExpertProjection& projection,
                             const Activation& activation) {
  const HiddenValues hidden{tape.value(ValueKind::kProjection, name + ".gate_up"),
                            tape.value(ValueKind::kActivationOutput, name + ".activation")};
  OperatorTape::Operator step;
  step.outputs = {hidden.u, hidden.h};
  step.needs = {x, routed.order, routed.ends};
  step.forward = [=, &tape] {
    ExpertsHidden made = dispatch_forward(tape.get(x), routed.sorted(tape), projection, activation);
    tape.set(hidden.u, std::move(made.u));
    tape.set(hidden.h, std::move(made.h));
  };
  step.backward = [=, &tape] {
    const at::Tensor grad = tape.gradient(hidden.u);
    const TokenPermutation order = routed.sorted(tape);
    tape.set_gradient(x, dispatch_backward_input(grad, order, projection, tape.gradient(x)));
    tape.when_available(
        x, [=](const at::Tensor& in) { dispatch_backward_weight(grad, in, order, projection); });
  };
  tape.record(std::move(step));
  return hidden;
}

Value record_combine(OperatorTape& tape, const std::string& name, const HiddenValues& hidden,
                     const RoutedValues& routed, const ExpertProjection& projection,
                     const Activation& activation, std::optional<Value> residual) {
  const Value y = tape.value(ValueKind::kProjection, name);
  OperatorTape::Operator step;
  step.outputs = {y};
  step.needs = {hidden.u, routed.weights, routed.order, routed.ends};
  step.forward = [=, &tape] {
    const at::Tensor added = residual ? tape.get(*residual) : at::Tensor();
    tape.set(y, combine_forward(tape.get(hidden.h), tape.get(routed.weights), routed.sorted(tape),
                                projection, added));
  };
  step.backward = [=, &tape] {
    const at::Tensor grad = tape.gradient(y);
    if (residual) tape.add_gradient(*residual, grad);
    const at::Tensor u = tape.get(hidden.u);
    tape.release(hidden.h);  // set when u had to be recomputed
    CombineGradients gradients = combine_backward(grad, u, tape.get(routed.weights),
                                                  routed.sorted(tape), projection, activation);
    tape.set_gradient(hidden.u, std::move(gradients.u));
    tape.set_gradient(routed.weights, std::move(gradients.weights));
  };
  tape.record(std::move(step));
  return y;
}

}  // namespace

RoutingOptions routing_options(const ExpertsConfig& config) {
  return {.experts_per_row = config.experts_per_token,
          .normalize = !config.softmax_first || config.normalize_weights,
          .keep_probabilities = config.auxiliary_loss != 0};
}

Value experts(OperatorTape& tape, const std::string& name, Value x, const ExpertsWeights& weights,
              const ExpertsOptions& options, const DeviceBatch& batch,
              std::optional<Value> residual) {
  const RoutedValues routed = record_router(tape, name, x, weights, options, batch);
  const HiddenValues hidden =
      record_dispatch(tape, name + ".experts", x, routed, weights.up, options.activation);
  return record_combine(tape, name + ".experts.down", hidden, routed, weights.down,
                        options.activation, residual);
}

Value shared_expert_gate(OperatorTape& tape, std::string_view name, Value x, Value y,
                         const Parameter& weight, std::optional<Value> residual) {
  const Value out = tape.value(ValueKind::kProjection, name);
  const Value gate = tape.value(ValueKind::kStatistics, std::string(name) + ".gate");
  OperatorTape::Operator step;
  step.outputs = {out, gate};
  step.needs = {x, y, gate};
  step.forward = [=, &tape, &weight] {
    const at::Tensor s = shared_expert_gate(tape.get(x), weight);
    tape.set(out, shared_expert_gate_forward(s, tape.get(y),
                                             residual ? tape.get(*residual) : at::Tensor()));
    tape.set(gate, s);
  };
  step.backward = [=, &tape, &weight] {
    const at::Tensor grad = tape.gradient(out);
    const at::Tensor s = tape.get(gate);
    if (residual) tape.add_gradient(*residual, grad);
    const at::Tensor grad_logit = shared_expert_gate_backward_logit(grad, s, tape.get(y));
    tape.set_gradient(y, shared_expert_gate_backward(grad, s));
    tape.set_gradient(x, shared_expert_gate_backward_input(grad_logit, weight, tape.gradient(x)));
    tape.when_available(x, [=, &weight](const at::Tensor& in) {
      shared_expert_gate_backward_weight(grad_logit, in, weight);
    });
  };
  tape.record(std::move(step));
  return out;
}

}  // namespace packtrain
